/* Folders of this machine. */
#pragma once

#include <stdbool.h>

/* A descriptor of it, or -errno; `make`: with all above it, if they are not there. "": the current one. */
int folder_open(const char *path, bool make);
bool folder_is(const char *path);
/* The last name of a path, without slashes; "" for "/", "." and "..". The caller frees it. */
char *folder_last_name(const char *path);
