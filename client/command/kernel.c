/* `husk extend`, `interrupt`, `restart` and `health`. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buffer.h"
#include "command/exit_status.h"
#include "command/human.h"
#include "command/options.h"
#include "command/say.h"
#include "command/session.h"
#include "command/verbs.h"

const char help_extend[] = "Let a sandbox live for so long from now: 90, 10m, 2h, 1d.\n"
                           "\n"
                           "Example:\n"
                           "  husk extend demo 12h\n";

const char help_interrupt[] = "Stop the code that runs in a sandbox, as Ctrl-C does; its variables "
                              "stay. Returns when it has stopped.\n"
                              "\n"
                              "Example:\n"
                              "  husk interrupt demo\n";

const char help_restart[] =
    "Start Python afresh: variables are gone; files, packages and running commands stay.\n"
    "\n"
    "Example:\n"
    "  husk restart demo\n";

const char help_health[] =
    "How the service is. The exit status is 1 if it cannot make sandboxes. Needs no key.\n"
    "\n"
    "Example:\n"
    "  husk health && husk run job.py\n";

DEFINE_CLEANUP(struct husk_health, husk_health_free);

int verb_extend(const struct invocation *invocation, int argc, char **argv)
{
    _cleanup_session_ struct session session = {.line = {.least = 2, .most = 2}};
    double seconds;
    if (!session_begin(&session, invocation, argc, argv))
        return session.line.status;
    const char *const *words = session.line.words.items;
    if (seconds_parse(words[1], &seconds) < 0) {
        say("'%s' is no time: 90, 10m, 2h, 1d.", words[1]);
        return EXIT_USAGE;
    }
    if (husk_extend(session.husk, words[0], (uint64_t)seconds, &session.error) < 0)
        return session_failed(&session);
    return session_success(&session, "sandbox_id", words[0], NULL);
}

/* A call that needs a sandbox and nothing else. */
static int call_plain(const struct invocation *invocation, int argc, char **argv,
                      int (*call)(struct husk *, const char *, struct husk_error *))
{
    _cleanup_session_ struct session session = {.line = {.least = 1, .most = 1}};
    if (!session_begin(&session, invocation, argc, argv))
        return session.line.status;
    if (call(session.husk, session.line.words.items[0], &session.error) < 0)
        return session_failed(&session);
    return session_success(&session, "sandbox_id", session.line.words.items[0], NULL);
}

int verb_interrupt(const struct invocation *invocation, int argc, char **argv)
{
    return call_plain(invocation, argc, argv, husk_interrupt);
}

int verb_restart(const struct invocation *invocation, int argc, char **argv)
{
    return call_plain(invocation, argc, argv, husk_restart);
}

int verb_health(const struct invocation *invocation, int argc, char **argv)
{
    _cleanup_session_ struct session session = {};
    _cleanup_(husk_health_free_cleanup) struct husk_health *health = NULL;
    _cleanup_buffer_ struct buffer out = {};
    char uptime[HUMAN_SIZE];
    if (!session_begin(&session, invocation, argc, argv))
        return session.line.status;
    if (husk_health(session.husk, &health, &session.error) < 0)
        return session_failed(&session);
    int status = health->healthy ? EXIT_GOOD : EXIT_CODE_FAILED;
    if (session.invocation->json)
        return session_print(health->json) == EXIT_GOOD ? status : EXIT_LOCAL;
    human_duration(health->uptime_seconds, uptime);
    (void)buffer_printf(&out,
                        "%s: huskd %s at %s, up for %s; sandboxes: %" PRIu64 " live, %" PRIu64
                        " warm, at most %" PRIu64 "\n%s%s",
                        health->healthy ? "healthy" : "unhealthy", health->version,
                        husk_url(session.husk), uptime, health->live, health->warm, health->maximum,
                        health->reasons, *health->reasons ? "\n" : "");
    return say_text(STDOUT_FILENO, out.data, out.length) < 0 ? EXIT_LOCAL : status;
}
