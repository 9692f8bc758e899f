/* How a command looks to its caller: judged when a process of it has ended. For command.c. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "shim/command.h"

/* Set status and error_value by `end`, `stop`, and whether the host killed something for lack of memory meanwhile. */
void command_judge(struct command *command, bool out_of_memory);
/* What a shell has in $?: 128 and the signal for one that was killed, 126 and 127 for one that could not be started. */
int command_exit_code(const struct process_end *end);
/* A number, or null while nobody knows it; a new reference. */
json_t *command_pid(const struct command *command);
/* An entry of "commands" for the process that has just ended; a new reference. */
json_t *command_outcome(const struct command *command, uint64_t duration_ms);
/* The answer as a JSON object, of a tool with its sandbox. 0 or -errno. */
int command_result_append(const struct command *command, struct buffer *out);
/* Type of the error, in the words of `execute`; NULL: it did what it did. */
const char *command_error_name(const struct command *command);
