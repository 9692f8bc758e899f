/* Several messages in one body (2025-03-26): their answers are one array, when the last one is there. A batch has a call of
 * its own, its carrier, which the transport knows; it frees itself with that. */
#pragma once

#include "mcp/mcp.h"

struct batch;

/* `carrier` is not handled yet. */
struct batch *batch_new(struct mcp_call *carrier);
/* The next message: its answer comes here. */
void batch_enter(struct batch *batch, struct mcp_input *input);
/* It has none. */
void batch_skip(struct batch *batch);
/* That was the last message. False: there is nothing to answer, neither now nor later. */
bool batch_close(struct batch *batch);
