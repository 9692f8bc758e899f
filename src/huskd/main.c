/* huskd: start-up and shutdown. The order of the start matters: what can fail because of the surroundings (address, state
 * directory, image) fails before anything is started; root is given up before the first request is read. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fdio.h"
#include "base/json_memory.h"
#include "base/log.h"
#include "base/text.h"
#include "http/guard.h"
#include "http/server.h"
#include "http/tls.h"
#include "husk/limits.h"
#include "husk/version.h"
#include "huskd/anchor_start.h"
#include "huskd/audit.h"
#include "huskd/caller.h"
#include "huskd/config.h"
#include "huskd/file_opener.h"
#include "huskd/keeper_client.h"
#include "huskd/keyring.h"
#include "huskd/ledger.h"
#include "huskd/listen_address.h"
#include "huskd/package_source.h"
#include "huskd/pool.h"
#include "huskd/privileges.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "huskd/setting.h"
#include "huskd/state_directory.h"
#include "loop/loop.h"

enum {
    EXIT_USAGE = 2,
    OWN_ID = 1, /* of P's range, when root starts us */
    STEP_MS = 20,
    ENDING_KEEPER_MS = 10 * 1000, /* at the start, for one that hangs up */
    ENDING_KEEPER_STEP_MS = 20,
    ZYGOTE_MS =
        2000, /* a fresh keeper's zygote imports for so long; sandboxes made before that start slowly and cost more memory */
    ANSWER_MS = 5000,    /* for requests that wait when we are told to stop */
    SEND_MS = 2000,      /* for their answers to be taken */
    STOP_MS = 20 * 1000, /* for every sandbox to end, */
    STOP_EACH_MS = 50    /* and for each so much more */
};

enum stage {
    STAGE_SERVING,
    STAGE_ANSWERING, /* no new connections; requests that wait may finish */
    STAGE_SENDING,   /* all are answered, answers are on their way */
    STAGE_STOPPING   /* sandboxes end */
};

struct program {
    struct config config;
    struct listen_address address;
    int listen_fd;
    int lock_fd;
    int keeper_fd;
    bool fresh; /* so is the keeper */
    int ledger_fd;
    struct package_source *package_source;
    struct loop *loop;
    struct service *service;
    struct callers *callers;
    struct keyring *keyring;
    struct tls *tls;            /* NULL: plain HTTP */
    struct file_opener *opener; /* NULL: there is nothing to read anew */
    struct guard *guard;
    struct server *server;

    enum stage stage;
    bool stop_sandboxes;
    uint64_t stage_end_ms;
    uint64_t stop_ms;
    struct timer *stage_timer;
    int result;
};

/* --- stopping ----------------------------------------------------------------------------------- */

static void enter_stage(struct program *program, enum stage stage, uint64_t milliseconds)
{
    program->stage = stage;
    program->stage_end_ms = now_ms() + milliseconds;
    timer_arm(program->stage_timer, 0);
}

static void ask_to_stop(struct program *program);

static void stop_answered(const struct keeper_message *message, void *user)
{
    /* A keeper that died over it is replaced, and asked again. */
    if (message->status < 0)
        ask_to_stop(user);
}

static void ask_to_stop(struct program *program)
{
    struct keeper_message message = {.type = KEEPER_STOP};
    (void)keeper_client_ask(program->service->keeper, &message, stop_answered, program);
}

static void stop_everything(struct program *program)
{
    log_line(LOG_INFO, "ending all sandboxes");
    program->stop_ms = STOP_MS + STOP_EACH_MS * registry_count(program->service->registry);
    sandbox_forget_all(program->service);
    ask_to_stop(program);
    enter_stage(program, STAGE_STOPPING, program->stop_ms);
}

static void after_answers(struct program *program)
{
    if (program->stop_sandboxes)
        stop_everything(program);
    else
        loop_stop(program->loop, program->result);
}

static void check_stopped(struct program *program, bool late)
{
    if (state_directory_abandoned(program->config.state) == 0) {
        log_line(LOG_INFO, "all sandboxes have ended");
        loop_stop(program->loop, program->result);
    } else if (late) {
        log_line(LOG_ERROR,
                 "some sandboxes did not end within %" PRIu64
                 " seconds; husk-anchor still holds %s",
                 program->stop_ms / 1000, program->config.state);
        loop_stop(program->loop, EXIT_FAILURE);
    }
}

static void stage_step(struct timer *timer, void *user)
{
    struct program *program = user;
    bool late = now_ms() >= program->stage_end_ms;
    timer_arm(timer, STEP_MS);
    switch (program->stage) {
    case STAGE_SERVING:
        break;
    case STAGE_ANSWERING:
        if (late || server_waiting(program->server) == 0) {
            server_dismiss(program->server);
            enter_stage(program, STAGE_SENDING, SEND_MS);
        }
        break;
    case STAGE_SENDING:
        if (late || server_open(program->server) == 0)
            after_answers(program);
        break;
    case STAGE_STOPPING:
        check_stopped(program, late);
        break;
    }
}

static void begin_to_stop(struct program *program)
{
    program->service->phase = SERVICE_STOPPING;
    server_stop_listening(program->server);
    enter_stage(program, STAGE_ANSWERING, ANSWER_MS);
}

/* --- keys and certificate --------------------------------------------------------------------------------------- */

static int take_keys(struct program *program, int fd, struct failure *why)
{
    const char *path = program->config.keys_file;
    struct failure reason;
    if (fd < 0)
        return fail(why, -fd, "open the keys file %.160s (whoever starts huskd must own it)", path);
    int r = keyring_read(program->keyring, fd, &reason);
    return r < 0 ? fail_plain(why, -r, "%.120s: %s", path, reason.text) : 0;
}

static void files_opened_again(int error, const int fds[OPENED_FILES], void *user)
{
    struct program *program = user;
    const struct config *config = &program->config;
    struct failure why = {.text = "the process that opens it is gone: restart huskd"};
    if (*config->keys_file) {
        int r = error < 0 ? error : take_keys(program, fds[OPENED_KEYS], &why);
        audit_keys(keyring_count(program->keyring), r < 0 ? why.text : NULL);
        server_keys_changed(program->server);
    }
    if (*config->tls_cert) {
        int r = error < 0 ? error
                          : tls_read(program->tls, fds[OPENED_TLS_CERT], fds[OPENED_TLS_KEY], &why);
        audit_tls(r < 0 ? why.text : NULL);
    }
}

struct first_reading {
    struct program *program;
    struct failure *why;
    int result;
};

static void files_opened_first(int error, const int fds[OPENED_FILES], void *user)
{
    struct first_reading *reading = user;
    struct program *program = reading->program;
    int r =
        error < 0 ? fail_plain(reading->why, -error, "the process that opens files has ended") : 0;
    if (r == 0 && *program->config.keys_file)
        r = take_keys(program, fds[OPENED_KEYS], reading->why);
    if (r == 0 && program->tls)
        r = tls_read(program->tls, fds[OPENED_TLS_CERT], fds[OPENED_TLS_KEY], reading->why);
    reading->result = r;
}

static int prepare_secrets(struct program *program, struct failure *why)
{
    const struct config *config = &program->config;
    const char *const paths[OPENED_FILES] = {[OPENED_KEYS] = config->keys_file,
                                             [OPENED_TLS_CERT] = config->tls_cert,
                                             [OPENED_TLS_KEY] = config->tls_key};
    struct first_reading reading = {.program = program, .why = why};
    program->callers = callers_new();
    int r = keyring_new(config, program->callers, &program->keyring, why);
    if (r < 0 || (!*config->keys_file && !*config->tls_cert))
        return r;
    if (*config->tls_cert && MHD_is_feature_supported(MHD_FEATURE_HTTPS_CERT_CALLBACK) != MHD_YES)
        return fail_plain(why, EOPNOTSUPP, "this libmicrohttpd was built without TLS");
    if (*config->tls_cert)
        program->tls = tls_new();
    r = file_opener_start(paths, &program->opener, why);
    if (r == 0 && file_opener_ask_now(program->opener, files_opened_first, &reading) < 0)
        r = fail_plain(why, EIO, "the process that opens keys and certificates has ended");
    return r < 0 ? r : reading.result;
}

static void reload(struct program *program)
{
    if (program->opener)
        file_opener_ask(program->opener);
    else
        log_line(LOG_INFO, "SIGHUP: neither keys_file nor tls_cert is set, nothing to read anew");
}

/* --- signals ------------------------------------------------------------------------------------ */

/* A terminal's Ctrl-C ends everything; a service manager's SIGTERM leaves the sandboxes for the next start. */
static void on_signal(const struct signalfd_siginfo *info, void *user)
{
    struct program *program = user;
    if (info->ssi_signo == SIGHUP)
        return reload(program);
    log_event(LOG_INFO, "stopping", "signal", strsignal((int)info->ssi_signo), NULL);
    if (program->stage != STAGE_SERVING) {
        loop_stop(program->loop, EXIT_FAILURE);
        return;
    }
    program->stop_sandboxes = program->config.stop_sandboxes || info->ssi_signo == SIGINT;
    begin_to_stop(program);
}

static void on_abandoned(void *user)
{
    struct program *program = user;
    if (program->stage != STAGE_SERVING)
        return;
    log_line(LOG_ERROR, "husk-anchor ended, and every sandbox with it; start huskd again");
    program->result = EXIT_FAILURE;
    begin_to_stop(program);
}

/* --- starting ----------------------------------------------------------------------------------- */

static int check_address(struct program *program, struct failure *why)
{
    int r = listen_address_parse(program->config.listen, &program->address, why);
    if (r < 0)
        return r;
    if (!program->address.loopback && !config_has_keys(&program->config))
        return fail_plain(why, EINVAL,
                          "listening on %s would let anybody on the network run code here: set "
                          "api_key in husk.conf (or HUSK_API_KEY), or keys_file, or listen on "
                          "127.0.0.1",
                          program->config.listen);
    return 0;
}

/* One that is ending, by itself or with all that is its, is not the one to talk to: soon there is another, or none. */
static int connect_keeper(const char *path, char version[KEEPER_TEXT_SIZE], struct failure *why)
{
    uint64_t until = now_ms() + ENDING_KEEPER_MS;
    int r;
    while ((r = keeper_connect(path, version, why)) == -ECONNRESET && now_ms() < until)
        (void)poll(NULL, 0, ENDING_KEEPER_STEP_MS);
    return r;
}

static int find_keeper(struct program *program, struct failure *why)
{
    char path[PATH_MAX], version[KEEPER_TEXT_SIZE];
    int r = format_text(path, sizeof path, "%s/" KEEPER_SOCKET_NAME, program->config.state);
    if (r < 0)
        return fail(why, r, "%.120s", program->config.state);
    r = connect_keeper(path, version, why);
    if (r == -ENOENT || r == -ECONNREFUSED) {
        /* A socket that nobody listens to is what a service leaves that was killed, with all that was its. */
        if (r == -ECONNREFUSED)
            log_line(LOG_WARNING, "an earlier service ended without cleaning up, and its sandboxes "
                                  "with it: starting clean");
        else
            log_line(LOG_INFO, "no service was here before: starting clean");
        r = anchor_start(&program->config, why);
        program->fresh = true;
        if (r == 0)
            r = connect_keeper(path, version, why);
    }
    if (r < 0)
        return r;
    program->keeper_fd = r;
    if (strcmp(version, HUSK_VERSION) != 0)
        log_event(LOG_WARNING, "the keeper that is running is of another version", "keeper",
                  version, "huskd", HUSK_VERSION, NULL);
    return 0;
}

/* A cache that cannot be had is no reason not to start: then no packages can be installed, and the keeper says why. */
static int prepare_packages(struct program *program, struct failure *why)
{
    if (!program->config.packages)
        return 0;
    int r = package_source_new(&program->config, &program->package_source, why);
    struct failure cache;
    if (r == 0 && package_cache_make(&program->config, &cache) < 0)
        log_event(LOG_WARNING, "packages cannot be installed", "reason", cache.text, NULL);
    return r;
}

static int prepare(struct program *program, struct failure *why)
{
    const struct config *config = &program->config;
    int r = check_address(program, why);
    if (r == 0)
        r = prepare_secrets(program, why);
    if (r == 0)
        r = program->listen_fd = listen_address_open(&program->address, why);
    if (r >= 0)
        r = state_directory_make(config->state, (uid_t)config->id_base, why);
    if (r >= 0)
        r = program->lock_fd = state_directory_lock(config->state, (uid_t)config->id_base, why);
    if (r >= 0)
        r = program->ledger_fd = ledger_open(config->state, why);
    if (r >= 0)
        r = prepare_packages(program, why);
    if (r >= 0)
        r = find_keeper(program, why);
    if (r < 0 && program->lock_fd >= 0)
        state_directory_discard(config->state);
    if (r >= 0)
        r = privileges_drop((uid_t)config->id_base + OWN_ID, why);
    return r;
}

static int start_loop(struct program *program, struct failure *why)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, 0};
    program->loop = loop_new();
    if (!program->loop)
        return fail(why, errno, "make an event loop");
    program->stage_timer = timer_add(program->loop, stage_step, program);
    int r = loop_signals(program->loop, signals, on_signal, program);
    return r < 0 ? fail(why, r, "watch signals") : 0;
}

static int start_service(struct program *program, struct failure *why)
{
    /* The anchor is our child, but not ours to wait for. */
    (void)signal(SIGCHLD, SIG_IGN);
    program->service =
        service_new(&program->config, program->callers, program->loop,
                    TAKE_DESCRIPTOR(program->keeper_fd), TAKE_DESCRIPTOR(program->ledger_fd));
    program->service->package_source = program->package_source;
    program->service->abandoned = on_abandoned;
    program->service->abandoned_user = program;
    program->guard = guard_new(&program->config, program->address.host, program->keyring);
    program->server =
        server_new(program->service, program->guard, program->tls != NULL, program->listen_fd, why);
    if (!program->server)
        return -EIO;
    if (program->opener &&
        file_opener_attach(program->opener, program->loop, files_opened_again, program) < 0)
        return fail_plain(why, EIO, "cannot listen to the process that opens files");
    if (program->fresh)
        pool_pause(program->service->pool, ZYGOTE_MS);
    service_start(program->service);
    return 0;
}

static void greet(const struct program *program)
{
    char address[LISTEN_TEXT_SIZE] = "";
    (void)listen_address_format(program->listen_fd, address);
    log_event(LOG_INFO, "listening", "address", address, "version", HUSK_VERSION, NULL);
    const char *scheme = program->tls ? "https" : "http";
    (void)printf("\nHusk %s listens on %s://%s\n\n  Try: curl -X POST %s%s://%s/sandbox/create\n\n",
                 HUSK_VERSION, scheme, address,
                 config_has_keys(&program->config) ? "-H \"Authorization: Bearer $HUSK_API_KEY\" "
                                                   : "",
                 scheme, address);
    (void)fflush(stdout);
}

static int serve(struct program *program, struct failure *why)
{
    int r = start_loop(program, why);
    if (r == 0)
        r = prepare(program, why);
    if (r >= 0)
        r = start_service(program, why);
    if (r >= 0 && chdir("/") < 0)
        r = fail(why, errno, "go to /");
    if (r < 0)
        return r;
    greet(program);
    r = loop_run(program->loop);
    if (r < 0)
        return fail(why, r, "event loop");
    server_dismiss(program->server);
    program->result = r;
    return 0;
}

static void clean_up(struct program *program)
{
    server_free(program->server);
    tls_free(program->tls);
    guard_free(program->guard);
    service_free(program->service);
    file_opener_free(program->opener);
    keyring_free(program->keyring);
    callers_free(program->callers);
    package_source_free(program->package_source);
    loop_free(program->loop);
    close_fd(program->keeper_fd);
    close_fd(program->ledger_fd);
    close_fd(program->lock_fd);
    config_free(&program->config);
}

/* --- what was asked for ------------------------------------------------------------------------- */

static int check(struct program *program, struct failure *why)
{
    int r = check_address(program, why);
    if (r == 0)
        r = prepare_secrets(program, why);
    if (r == 0)
        r = image_check(program->config.image, why);
    if (r == 0)
        (void)puts("configuration and image are fine");
    return r;
}

static int act(struct program *program, struct failure *why)
{
    switch (program->config.action) {
    case CONFIG_HELP:
        setting_print_help(stdout);
        return 0;
    case CONFIG_VERSION:
        (void)puts("huskd " HUSK_VERSION);
        return 0;
    case CONFIG_PRINT:
        setting_print_config(&program->config, stdout);
        return 0;
    case CONFIG_NEW_KEY:
        return keyring_make(program->config.new_key, stderr, stdout, why);
    case CONFIG_CHECK:
        return check(program, why);
    case CONFIG_RUN:
        return serve(program, why);
    }
    return -EINVAL;
}

int main(int argc, char **argv)
{
    struct program program = {.listen_fd = -1, .lock_fd = -1, .keeper_fd = -1, .ledger_fd = -1};
    struct failure why = {0};
    log_setup("huskd", LOG_WARNING, LOG_FORMAT_AUTO);
    (void)signal(SIGPIPE, SIG_IGN);
    json_memory_setup();
    /* Fixed, so that the memory of a large answer goes back to the system when it is sent. */
    (void)mallopt(M_MMAP_THRESHOLD, 128 * KIB);
    umask(022);
    int r = config_load(&program.config, argc, argv, &why);
    int usage = r;
    if (r == 0 && sodium_init() < 0)
        r = fail_plain(&why, EIO, "libsodium could not be started");
    if (r == 0) {
        log_setup("huskd", (enum log_level)program.config.log_level,
                  (enum log_format)program.config.log_format);
        raise_descriptor_limit(); /* one for each sandbox and each connection */
        r = act(&program, &why);
    }
    clean_up(&program);
    if (r < 0) {
        (void)fprintf(stderr, "huskd: %s\n", why.text);
        return usage < 0 ? EXIT_USAGE : EXIT_FAILURE;
    }
    return program.result;
}
