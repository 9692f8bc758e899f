/* A file of this machine that is being written: under a name of its own beside its place, and moved there when it is complete.
 *
 *   new ─► written … ─► finished: it is at its place
 *     └──────┴─► freed: nothing of it is left
 *
 * What is no regular file (a pipe, a device, standard output "-") is written as it is. */
#pragma once

#include <stddef.h>

#include "husk.h"

struct local_file;

/* Borrows `husk`: whose cancellation ends a write that waits. */
int local_file_new(struct husk *husk, const char *name, struct local_file **ret,
                   struct husk_error *error);
int local_file_write(struct local_file *file, const char *data, size_t length,
                     struct husk_error *error);
int local_file_finish(struct local_file *file, struct husk_error *error);
struct local_file *local_file_free(struct local_file *file); /* NULL ok, returns NULL */
