/* Symbolic links in archives, coming and going: none may lead out of the folder that is packed or unpacked. */
#pragma once

#include <stdbool.h>

/* Does a link at `path` (relative to the folder) to `target` stay below the folder, whatever the other links there are? So that this can be
 * said of each link by itself, ".." is allowed only at the beginning of a target. */
bool link_stays(const char *path, const char *target);
/* Is this a relative path without ".." that has at least one name? */
bool path_is_below(const char *path);
