/* Paths of files as clients write them: relative to the working directory, or with "/home/user/" in front. */
#pragma once

#include "husk/limits.h"

/* Into its plain form: relative, without empty components and ".". "": the working directory itself. 0; -EINVAL: it is absolute
 * elsewhere, has "..", or is not UTF-8; -ENAMETOOLONG. This is for the sake of clear answers: what a path leads to is decided
 * by the keeper. */
int file_path_clean(const char *text, char out[MAX_FILE_PATH_BYTES + 1]);

/* The last component of a file name that a client's system made, whichever slashes it uses. Borrowed. */
const char *file_path_last(const char *name);
