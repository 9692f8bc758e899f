/* Where pip in the sandbox asks for packages: a socket in /run/husk (husk/package_protocol.h). Whoever is in the sandbox can
 * say anything here, and as often as it likes: a few clients at once, a bounded text from each, a bounded time to say it. What
 * they want is passed on to huskd (SHIM_WANTED), one after the other and not too fast; what huskd says, to them.
 *
 *     SPEAKING (reads lines) ─► QUEUED (its turn will come) ─► WAITING (huskd has it) ─► LEAVING (the last lines are on their way) ─► gone
 *
 * Life: package_desk_new → … → package_desk_free. Loop thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "loop/loop.h"
#include "shim/connection.h"

struct package_desk;

/* NULL: there is no socket, and pip in the sandbox says so. Borrows both. */
struct package_desk *package_desk_new(struct loop *loop, struct connection *connection);
struct package_desk *package_desk_free(struct package_desk *desk); /* NULL ok, returns NULL */

/* SHIM_SAY; with `last`, SHIM_SAID. */
void package_desk_say(struct package_desk *desk, uint64_t tag, const char *text, size_t length,
                      bool last);
/* Another huskd: it knows nothing of those who wait. */
void package_desk_dismiss(struct package_desk *desk);
