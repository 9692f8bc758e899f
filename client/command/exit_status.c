#include "command/exit_status.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/interruption.h"
#include "command/say.h"
#include "husk.h"

static const enum exit_status of_kind[] = {
    [HUSK_ERROR_ARGUMENT] = EXIT_USAGE,      [HUSK_ERROR_MEMORY] = EXIT_LOCAL,
    [HUSK_ERROR_CONNECT] = EXIT_UNREACHABLE, [HUSK_ERROR_BROKEN] = EXIT_UNREACHABLE,
    [HUSK_ERROR_TIMEOUT] = EXIT_UNREACHABLE, [HUSK_ERROR_CANCELLED] = EXIT_INTERRUPTED,
    [HUSK_ERROR_REFUSED] = EXIT_REFUSED,     [HUSK_ERROR_ANSWER] = EXIT_UNREACHABLE,
    [HUSK_ERROR_FILE] = EXIT_LOCAL,
};

/* What to do next, if the sentence of the error does not say it. */
static const char *advice(const struct husk_error *error)
{
    if (error->kind == HUSK_ERROR_CONNECT)
        return "Start a service with `make run` or `systemctl start husk`, or say where one is "
               "with "
               "--url or HUSK_URL.";
    if (error->http_status == 401)
        return "Give the service's key with --api-key or HUSK_API_KEY.";
    if (!strcmp(error->code, "sandbox_not_found"))
        return "`husk ls` lists those that there are.";
    if (error->kind == HUSK_ERROR_ANSWER)
        return "Is there a Husk at this address?";
    return NULL;
}

static void say_object(const struct husk_error *error)
{
    json_t *object = json_pack("{s:{s:s, s:i, s:s, s:s}}", "error", "kind",
                               husk_error_name(error->kind), "http_status", error->http_status,
                               "code", error->code, "message", error->message);
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    (void)fprintf(stderr, "%s\n", text ? text : "{\"error\":{}}");
    free(text);
    json_decref(object);
}

enum exit_status exit_with_error(const struct husk_error *error)
{
    if (error->kind == HUSK_ERROR_CANCELLED)
        return interruption_signal() ? (enum exit_status)interruption_status() : EXIT_INTERRUPTED;
    const char *more = advice(error);
    if (says_json())
        say_object(error);
    else if (error->retry_after > 0)
        say("%s Try again in %d s.", error->message, error->retry_after);
    else
        say("%s%s%s", error->message, more ? " " : "", more ? more : "");
    bool known = (size_t)error->kind < sizeof of_kind / sizeof *of_kind;
    return known && of_kind[error->kind] ? of_kind[error->kind] : EXIT_UNREACHABLE;
}

/* sys.exit() and sys.exit(None) are 0, a number is itself as far as an exit status goes, anything else is a message: 1. */
static int exit_of_value(const char *value)
{
    char *end;
    if (!value || !*value || !strcmp(value, "None"))
        return EXIT_GOOD;
    if (!strcmp(value, "True") || !strcmp(value, "False"))
        return *value == 'T';
    errno = 0;
    long number = strtol(value, &end, 10);
    return *end || end == value ? EXIT_CODE_FAILED : (int)(number & 0xff);
}

int exit_of_result(const struct husk_result *result)
{
    static const struct {
        const char *status;
        enum exit_status exit;
    } by_status[] = {
        {"ok", EXIT_GOOD},
        {"timeout", EXIT_TIMEOUT},
        {"interrupted", EXIT_INTERRUPTED},
        {"died", EXIT_DIED},
    };
    bool command = result->command_id && *result->command_id;
    for (size_t i = 0; i < sizeof by_status / sizeof *by_status; i++) {
        if (!strcmp(result->status, by_status[i].status) && (!command || i != 0))
            return by_status[i].exit;
    }
    if (command)
        return result->exit_code;
    if (result->error && !strcmp(result->error, "SystemExit"))
        return exit_of_value(result->error_value);
    return EXIT_CODE_FAILED;
}
