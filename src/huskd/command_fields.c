#include "huskd/command_fields.h"

#include <string.h>

#include "husk/limits.h"
#include "huskd/config.h"
#include "huskd/create_fields.h"
#include "huskd/json_body.h"
#include "huskd/problem.h"

static bool has_nul(const json_t *text)
{
    return strlen(json_string_value(text)) != json_string_length(text);
}

/* Why it cannot be run, or NULL. */
static const char *list_fault(const json_t *arguments)
{
    size_t i, bytes = 0;
    json_t *argument;
    if (json_array_size(arguments) == 0)
        return "is empty";
    if (json_array_size(arguments) > MAX_COMMAND_ARGUMENTS)
        return "has too many arguments (at most 512)";
    json_array_foreach(arguments, i, argument)
    {
        if (!json_is_string(argument))
            return "must be a text for the shell, or a list of strings to execute";
        if (has_nul(argument))
            return "has a NUL character";
        bytes += json_string_length(argument) + 1;
    }
    if (json_string_length(json_array_get(arguments, 0)) == 0)
        return "begins with an empty string";
    return bytes > MAX_COMMAND_BYTES ? "is too long (at most 64 KiB); write a file and run that"
                                     : NULL;
}

static const char *command_fault(const json_t *command)
{
    if (json_is_array(command))
        return list_fault(command);
    if (!json_is_string(command))
        return "must be a text for the shell, or a list of strings to execute";
    if (has_nul(command))
        return "has a NUL character";
    if (strspn(json_string_value(command), " \t\r\n") == json_string_length(command))
        return "is empty";
    return json_string_length(command) > MAX_COMMAND_BYTES
               ? "is too long (at most 64 KiB); write a file and run that"
               : NULL;
}

static bool invalid(struct problem *problem, const char *field, const char *fault)
{
    problem_set(problem, PROBLEM_INVALID_FIELD, "%s %s.", field, fault);
    return false;
}

static bool read_commands(struct command_fields *fields, struct problem *problem)
{
    size_t i;
    json_t *command;
    fields->command = json_body_value(fields->body, "command");
    fields->list = json_body_value(fields->body, "commands");
    if (!fields->command == !fields->list)
        return invalid(problem, "command",
                       fields->list
                           ? "and commands cannot both be given"
                           : "is missing: a text for the shell, or a list of strings to execute");
    if (fields->command) {
        const char *fault = command_fault(fields->command);
        return fault ? invalid(problem, "command", fault) : true;
    }
    if (!json_is_array(fields->list) || json_array_size(fields->list) == 0 ||
        json_array_size(fields->list) > MAX_COMMAND_STEPS)
        return invalid(problem, "commands", "must be a list of 1 to 64 commands");
    json_array_foreach(fields->list, i, command)
    {
        const char *fault = command_fault(command);
        if (fault)
            return invalid(problem, "one of commands", fault);
    }
    return true;
}

static bool read_surroundings(struct command_fields *fields, struct problem *problem)
{
    fields->cwd = json_body_value(fields->body, "cwd");
    fields->input = json_body_value(fields->body, "stdin");
    if (fields->cwd && (!json_is_string(fields->cwd) || has_nul(fields->cwd) ||
                        json_string_length(fields->cwd) == 0 ||
                        json_string_length(fields->cwd) > MAX_DIRECTORY_BYTES))
        return invalid(
            problem, "cwd",
            "must be the path of a folder, absolute or below /home/user, of at most 4095 bytes");
    if (fields->input &&
        (!json_is_string(fields->input) || json_string_length(fields->input) > MAX_STDIN_BYTES))
        return invalid(problem, "stdin",
                       "must be a string of at most 1 MiB; write a file for more");
    return create_fields_env(fields->body, &fields->env, problem);
}

bool command_fields_read(json_t *body, const struct config *config, struct command_fields *ret,
                         struct problem *problem)
{
    struct number_range range = {LEAST_TIMEOUT, (double)config->timeout_seconds.maximum};
    *ret = (struct command_fields){.body = json_incref(body)};
    if (!read_commands(ret, problem) || !read_surroundings(ret, problem) ||
        !json_body_flag(ret->body, "detach", &ret->detach, problem))
        return false;
    /* What nobody waits for, a server say, runs for as long as anything may. */
    ret->timeout =
        (double)(ret->detach ? config->timeout_seconds.maximum : config->timeout_seconds.standard);
    return json_body_real(ret->body, "timeout", range, &ret->timeout, problem);
}

void command_fields_free(struct command_fields *fields)
{
    json_decref(fields->body);
    json_decref(fields->tool);
    *fields = (struct command_fields){0};
}

char *command_fields_message(const struct command_fields *fields, const char *command_id)
{
    json_auto_t *message = json_pack(
        "{s:s, s:I, s:O*, s:O*, s:O*, s:O*, s:O*, s:s*, s:b, s:O*}", "id", command_id, "timeout_ms",
        (json_int_t)(fields->timeout * 1000), "command", fields->command, "commands", fields->list,
        "cwd", fields->cwd, "env", fields->env, "stdin", fields->input, "stream", fields->stream,
        "detach", fields->detach, "mcp", fields->tool);
    return message ? json_dumps(message, JSON_COMPACT) : NULL;
}
