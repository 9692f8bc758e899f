#include "command/session.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command/exit_status.h"
#include "command/interruption.h"
#include "command/say.h"

bool session_begin(struct session *session, const struct invocation *invocation, int argc,
                   char **argv)
{
    if (!command_line_read(&session->line, invocation, argc, argv))
        return false;
    session->invocation = &session->line.invocation;
    session->husk = invocation_client(session->invocation);
    if (!session->husk)
        session->line.status = EXIT_USAGE;
    return session->husk != NULL;
}

bool session_guard(struct session *session)
{
    interruption_catch();
    if (husk_clone(session->husk, &session->helper, &session->error) < 0) {
        session->line.status = session_failed(session);
        return false;
    }
    interruption_cancels(session->husk);
    return true;
}

void session_free(struct session *session)
{
    interruption_cancels(NULL);
    husk_free(session->husk);
    husk_free(session->helper);
    command_line_free(&session->line);
}

int session_failed(const struct session *session)
{
    return exit_with_error(&session->error);
}

int session_print(const char *text)
{
    bool good =
        say_text(STDOUT_FILENO, text, strlen(text)) == 0 && say_text(STDOUT_FILENO, "\n", 1) == 0;
    return good ? EXIT_GOOD : EXIT_LOCAL;
}

int session_success(const struct session *session, ...)
{
    if (!session->invocation->json)
        return EXIT_GOOD;
    json_t *object = json_pack("{s:s}", "status", "success");
    va_list pairs;
    va_start(pairs, session);
    for (const char *name; (name = va_arg(pairs, const char *));)
        (void)json_object_set_new(object, name, json_string(va_arg(pairs, const char *)));
    va_end(pairs);
    _cleanup_free_ char *text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return text ? session_print(text) : EXIT_LOCAL;
}
