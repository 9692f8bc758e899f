/* Unpacking an archive that anybody may have made: tar or zip, also compressed. Into a folder that nobody else sees, under limits; what
 * has no place in a sandbox (names that lead elsewhere, links that leave, devices, bombs) refuses the whole archive. */
#pragma once

#include "porter/reply.h"

/* From the descriptor `archive` into the empty folder `top`. 0, -EBADMSG, -ENOSPC, -EPIPE when nobody waits for it any more, or
 * another -errno; what was unpacked until then is there. */
int unpack_archive(struct reply *reply, int archive, int top, struct porter_end *end,
                   struct failure *why);
