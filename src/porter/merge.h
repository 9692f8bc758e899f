/* Moving an unpacked tree to its place: by renames, walking both by descriptors. Folders become one, files and links replace files and
 * links. Looked at as a whole before anything is moved: a folder in the place of a file, or the other way round, leaves all as
 * it was. */
#pragma once

#include "base/failure.h"

/* From the folder `from` to the folder `path` below `home`, which is made if it is not there. 0, -EEXIST, or another -errno. */
int merge_into(int from, int home, const char *path, struct failure *why);
