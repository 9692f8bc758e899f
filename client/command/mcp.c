/* `husk mcp`: its options and its loop. What it is: mcp_bridge.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/failure.h"
#include "base/fdio.h"
#include "base/log.h"
#include "command/exit_status.h"
#include "command/mcp_bridge.h"
#include "command/mcp_web.h"
#include "command/options.h"
#include "command/say.h"
#include "command/verb.h"
#include "husk.h"

const char help_mcp[] =
    "An MCP server on standard input and output, for editors that can only start commands. It "
    "carries\n"
    "messages to a huskd that runs (--url, HUSK_URL; http://127.0.0.1:8000) and answers back.\n"
    "\n"
    "  --start             start huskd if none answers: the one beside this program, or in PATH.\n"
    "                      What follows -- is given to it. It stays when the editor ends\n"
    "  --root DIR          local files that a model names must be in this folder (may be "
    "repeated;\n"
    "                      / opens everything). Without it: the folder in which husk was started,\n"
    "                      unless that is the home directory or above it\n"
    "  --api-key-file FILE where the API key stands; else HUSK_API_KEY\n"
    "\n"
    "upload_file, download_file and copy_project have local_path here: files and folders of this "
    "machine.\n"
    "Nothing but messages of the protocol is written to standard output; the rest goes to standard "
    "error.\n"
    "The exit status is 0 at the end of standard input.\n"
    "\n"
    "  {\"mcpServers\": {\"husk\": {\"command\": \"husk\", \"args\": [\"mcp\"]}}}\n"
    "  claude mcp add husk -- husk mcp\n"
    "  husk mcp --start --root ~/projects\n";

struct options {
    bool start;
    const char *key_file;
    struct words roots;
    struct command_line line;
};

/* --- the loop ----------------------------------------------------------------------------------- */

enum {
    LONGEST_WAIT_MILLISECONDS = 60 * 1000
};

static int open_signals(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void take_lines(struct bridge *bridge)
{
    const char *text;
    size_t length;
    lines_read(&bridge->lines);
    for (enum line_kind kind; (kind = lines_next(&bridge->lines, &text, &length)) != LINE_NONE;) {
        if (kind == LINE_GOOD)
            bridge_take(bridge, text, length);
        else
            bridge_refuse_long(bridge);
    }
}

/* Something can be read, or the end of it; libcurl does not tell of the latter. */
static bool is_ready(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, 0) > 0;
}

/* One round: wait, at most so long, and do what there is to do. True: a signal says that it is over. */
static bool run_once(struct bridge *bridge, int signals, int wait_ms, bool reading)
{
    struct lines *lines = &bridge->lines;
    struct curl_waitfd watched[] = {{.fd = signals, .events = CURL_WAIT_POLLIN}, {0}, {0}};
    unsigned count = 1;
    if (reading)
        watched[count++] = (struct curl_waitfd){.fd = STDIN_FILENO, .events = CURL_WAIT_POLLIN};
    if (lines_waiting(lines) > 0)
        watched[count++] = (struct curl_waitfd){.fd = STDOUT_FILENO, .events = CURL_WAIT_POLLOUT};
    web_wait(bridge->web, watched, count, wait_ms);
    web_work(bridge->web);
    lines_flush(lines);
    if (reading && is_ready(STDIN_FILENO))
        take_lines(bridge);
    web_hold(bridge->web, lines_waiting(lines) > MAX_BRIDGE_OUTPUT_BYTES);
    return watched[0].revents != 0;
}

/* Until the client has nothing more to say; then what is about to end may end. */
static void serve(struct bridge *bridge, int signals)
{
    uint64_t end_ms = 0;
    bool over = false;
    while (!over && !bridge->lines.broken) {
        int wait_ms = LONGEST_WAIT_MILLISECONDS;
        uint64_t now = now_ms();
        bridge_tick(bridge, now, &wait_ms);
        if (bridge->lines.ended && !end_ms)
            end_ms = now + BRIDGE_GRACE_MILLISECONDS;
        bool idle = bridge->call_count == 0 && lines_waiting(&bridge->lines) == 0;
        if (end_ms && (idle || now >= end_ms))
            return;
        bridge_lower(&wait_ms, now, end_ms);
        over = run_once(bridge, signals, wait_ms, !bridge->lines.ended);
    }
}

static void say_goodbye(struct bridge *bridge, int signals)
{
    uint64_t end_ms = now_ms() + BRIDGE_GOODBYE_MILLISECONDS;
    bridge_cancel_all(bridge);
    if (!mcp_session_end(bridge))
        return;
    for (uint64_t now; bridge->session.farewell && (now = now_ms()) < end_ms;) {
        int wait_ms = LONGEST_WAIT_MILLISECONDS;
        bridge_lower(&wait_ms, now, end_ms);
        (void)run_once(bridge, signals, wait_ms, false);
    }
}

/* --- the verb ----------------------------------------------------------------------------------- */

/* The first line of it. */
static int read_key(const char *file, char *key, size_t size)
{
    ssize_t length = read_file_at(AT_FDCWD, file, key, size);
    if (length < 0) {
        say("%s: %s", file, strerror((int)-length));
        return EXIT_LOCAL;
    }
    key[strcspn(key, "\r\n")] = '\0';
    if (*key)
        return 0;
    say("%s is empty", file);
    return EXIT_LOCAL;
}

static const char *non_empty(const char *text)
{
    return text && *text ? text : NULL;
}

static int set_up(struct bridge *bridge, const struct options *options, const char *key,
                  struct failure *why)
{
    if (!key)
        key = options->line.invocation.api_key;
    if (!key)
        key = non_empty(getenv("HUSK_API_KEY"));
    if (options->line.words.count > 0 && !options->start)
        return fail_plain(why, EINVAL, "'%s' makes no sense without --start",
                          options->line.words.items[0]);
    int r = web_new(options->line.invocation.url, key, &bridge->web, why);
    if (r == 0)
        r = roots_open(&bridge->roots, options->roots.items, options->roots.count, why);
    if (r == 0)
        r = service_init(bridge, options->start, &options->line.words, why);
    if (r == 0 && key)
        (void)setenv("HUSK_API_KEY", key, 1); /* for a huskd that is started */
    return r;
}

static int run(const struct options *options, const char *key)
{
    struct bridge bridge = {0};
    struct failure why = {0};
    int status = EXIT_GOOD;
    log_setup("husk", LOG_INFO, LOG_FORMAT_TEXT);
    if (set_up(&bridge, options, key, &why) < 0) {
        say("%s", why.text);
        status = why.code == EINVAL || why.code == E2BIG ? EXIT_USAGE : EXIT_LOCAL;
    } else {
        _cleanup_close_ int signals = open_signals();
        lines_open(&bridge.lines);
        service_probe(&bridge);
        serve(&bridge, signals);
        say_goodbye(&bridge, signals);
        lines_close(&bridge.lines);
    }
    mcp_session_free(&bridge.session);
    service_free(&bridge.service);
    roots_close(&bridge.roots);
    web_free(bridge.web);
    return status;
}

int verb_mcp(const struct invocation *invocation, int argc, char **argv)
{
    struct options options = {0};
    char key[MAX_HEADER_BYTES];
    const struct option table[] = {{"start", '\0', OPTION_FLAG, &options.start},
                                   {"root", '\0', OPTION_WORDS, &options.roots},
                                   {"api-key-file", '\0', OPTION_TEXT, &options.key_file},
                                   {}};
    options.line = (struct command_line){.options = table, .most = ANY_NUMBER};
    int status;
    if (!command_line_read(&options.line, invocation, argc, argv))
        status = options.line.status;
    else if (options.key_file && read_key(options.key_file, key, sizeof key) != 0)
        status = EXIT_LOCAL;
    else
        status = run(&options, options.key_file ? key : NULL);
    words_free(&options.roots);
    command_line_free(&options.line);
    return status;
}
