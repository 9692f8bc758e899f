/* A folder as a tar archive (pax, for names in UTF-8), sent while it is made, in constant memory. Links are packed as links; pipes,
 * sockets and devices, and what the sandbox itself may not read, are left out. A file that became shorter meanwhile is filled
 * up with zeros, as tar does; what was appended to one is left out. */
#pragma once

#include "porter/reply.h"

/* `name` is the folder's own, in front of all names in the archive; "": nothing is. */
int pack_folder(struct reply *reply, int folder, const struct porter_request *request,
                const char *name, struct porter_end *end, struct failure *why);
