#include "command/mcp_service.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/failure.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/loopback.h"
#include "base/memory.h"
#include "command/mcp_bridge.h"
#include "command/mcp_web.h"
#include "command/options.h"
#include "command/state_path.h"
#include "husk/limits.h"

enum {
    PROBE_MILLISECONDS = 100, /* between two questions whether it is there now */
    OTHER_MILLISECONDS =
        3000, /* for another, if ours has ended: somebody else's was quicker to listen there */
    MAX_HUSKD_ARGUMENTS = 64
};

/* --- where -------------------------------------------------------------------------------------- */

/* "127.0.0.1:8000", what a huskd must listen on to be found at the URL; NULL: that is not on this machine. */
static char *listen_address(const char *url)
{
    CURLU *parts = curl_url();
    char *host = NULL, *port = NULL, *address = NULL;
    bool good = curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK;
    if (good && strncasecmp(url, "http://", 7) == 0 && is_loopback(host))
        address =
            must_format("%s:%s", strcasecmp(host, "localhost") == 0 ? "127.0.0.1" : host, port);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(parts);
    return address;
}

int service_init(struct bridge *bridge, bool start, const struct words *arguments,
                 struct failure *why)
{
    struct service *service = &bridge->service;
    service->may_start = start;
    service->arguments = arguments;
    if (!start)
        return 0;
    if (arguments->count > MAX_HUSKD_ARGUMENTS)
        return fail_plain(why, E2BIG, "huskd can be given %d arguments here", MAX_HUSKD_ARGUMENTS);
    service->listen = listen_address(web_url(bridge->web));
    if (!service->listen)
        return fail_plain(why, EINVAL, "--start cannot start a huskd at %s: only on this machine",
                          web_url(bridge->web));
    service->log = state_path("huskd.log");
    if (!service->log)
        service->log = must_copy("");
    return 0;
}

void service_free(struct service *service)
{
    service->probe = transfer_cancel(service->probe);
    free(TAKE_POINTER(service->listen));
    free(TAKE_POINTER(service->log));
}

const char *service_absent(const struct bridge *bridge)
{
    static char text[400];
    const struct service *service = &bridge->service;
    if (service->may_start)
        (void)snprintf(text, sizeof text,
                       "huskd was started and does not answer at %s. Its log, %s, says why.",
                       web_url(bridge->web), *service->log ? service->log : "which is not kept,");
    else
        (void)snprintf(
            text, sizeof text,
            "No huskd answers at %s. Start it (`make run`, or `systemctl start husk`), or "
            "have `husk mcp --start` do that; then repeat the call.",
            web_url(bridge->web));
    return text;
}

/* --- starting ----------------------------------------------------------------------------------- */

/* Beside this program, or wherever PATH has it. */
static char *find_huskd(void)
{
    char own[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(own, '/');
    if (slash)
        *slash = '\0';
    char *path = must_format("%s/huskd", own);
    if (access(path, X_OK) == 0)
        return path;
    free(path);
    return must_copy("huskd");
}

/* The child: nothing of ours stays with it, least of all our stdout. */
_noreturn_ static void become_huskd(const struct service *service, const char *const *arguments)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)setsid();
    int nothing = open("/dev/null", O_RDWR);
    int log = *service->log ? open(service->log, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    (void)dup2(nothing, STDIN_FILENO);
    (void)dup2(log < 0 ? nothing : log, STDOUT_FILENO);
    (void)dup2(log < 0 ? nothing : log, STDERR_FILENO);
    cloexec_from(STDERR_FILENO + 1);
    if (chdir("/") == 0)
        (void)execvp(arguments[0], (char *const *)(uintptr_t)arguments);
    (void)fprintf(stderr, "huskd: %s: %m\n", arguments[0]);
    _exit(127);
}

static void start(struct bridge *bridge)
{
    struct service *service = &bridge->service;
    _cleanup_free_ char *program = find_huskd();
    const char *arguments[MAX_HUSKD_ARGUMENTS + 4] = {program, "--listen", service->listen};
    for (size_t i = 0; i < service->arguments->count; i++)
        arguments[3 + i] = service->arguments->items[i];
    log_event(LOG_INFO, "starting huskd", "program", program, "listen", service->listen, "log",
              service->log, NULL);
    service->child = fork();
    if (service->child == 0)
        become_huskd(service, arguments);
    if (service->child < 0)
        service->child = 0;
}

/* --- asking ------------------------------------------------------------------------------------- */

static void absent(struct bridge *bridge)
{
    struct service *service = &bridge->service;
    service->state = SERVICE_UNKNOWN;
    service->deadline_ms = service->probe_ms = 0;
    log_line(LOG_ERROR, "%s", service_absent(bridge));
    bridge_fail_waiting(bridge, service_absent(bridge));
}

static void look_after_child(struct service *service)
{
    int status;
    if (service->child <= 0 || waitpid(service->child, &status, WNOHANG) != service->child)
        return;
    service->child = 0;
    if (service->deadline_ms > now_ms() + OTHER_MILLISECONDS)
        service->deadline_ms = now_ms() + OTHER_MILLISECONDS;
}

static void probed(void *user, const struct transfer_end *end)
{
    struct bridge *bridge = user;
    struct service *service = &bridge->service;
    service->probe = NULL;
    look_after_child(service);
    bool late = now_ms() >= service->deadline_ms;
    /* While it starts it says so with a status of its own. */
    if (end->code == CURLE_OK && (end->status == 200 || late)) {
        service->state = SERVICE_UP;
        service->deadline_ms = 0;
        bridge_release(bridge);
    } else if (service->state == SERVICE_STARTING && !late) {
        service->probe_ms = now_ms() + PROBE_MILLISECONDS;
    } else if (service->state == SERVICE_STARTING || !service_refused(bridge)) {
        absent(bridge);
    }
}

void service_probe(struct bridge *bridge)
{
    struct service *service = &bridge->service;
    struct transfer_order order = {.method = "GET",
                                   .path = "/health",
                                   .milliseconds = BRIDGE_GOODBYE_MILLISECONDS,
                                   .done = probed,
                                   .user = bridge};
    service->probe_ms = 0;
    if (!service->probe)
        service->probe = transfer_start(bridge->web, &order);
}

void service_starts(struct bridge *bridge)
{
    struct service *service = &bridge->service;
    if (service->state == SERVICE_STARTING)
        return;
    service->state = SERVICE_STARTING;
    service->deadline_ms = now_ms() + (uint64_t)BRIDGE_START_SECONDS * 1000;
    service->probe_ms = now_ms() + PROBE_MILLISECONDS;
}

bool service_refused(struct bridge *bridge)
{
    struct service *service = &bridge->service;
    if (service->may_start && service->state != SERVICE_STARTING) {
        service_starts(bridge);
        start(bridge);
    }
    return service->may_start;
}

void service_tick(struct bridge *bridge, uint64_t now, int *wait_ms)
{
    struct service *service = &bridge->service;
    if (service->probe_ms && service->probe_ms <= now)
        service_probe(bridge);
    bridge_lower(wait_ms, now, service->probe_ms);
}
