/* What huskd sends the keeper, before anything believes it. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "husk/keeper_protocol.h"

/* `length` bytes were received into *request: a datagram is exactly as long as it says, and only a question about a file has a
 * path, without NUL in it. True: its texts are NUL-terminated now. */
bool keeper_request_check(struct keeper_request *request, size_t length);
