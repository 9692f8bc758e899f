/* The answer of a command as the result of an MCP tool: what a model reads, and the same for programs. */
#pragma once

#include "base/buffer.h"
#include "shim/command.h"

/* Append "content", "structuredContent" and "isError", as members without braces and line ends. 0 or -errno. */
int command_tool_append(const struct command *command, struct buffer *out);
