/* Which sandboxes a call may see: all that live. Everything in this folder that finds or lists sandboxes asks here and nowhere
 * else, so that this is the one place to say that somebody may not. What may not be seen is not there. */
#pragma once

#include <stdbool.h>

#include "base/id.h"

struct mcp_call;
struct problem;
struct sandbox;

bool view_has(const struct mcp_call *call, const struct sandbox *sandbox);
/* By its id or name. NULL: why not is in *problem. */
struct sandbox *view_find(const struct mcp_call *call, const char *reference,
                          struct problem *problem);
