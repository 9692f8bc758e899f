/* The JSON of a porter's list (husk/porter_protocol.h), as much of it as an answer shall have: finished, with one entry on each
 * line, so that it can be cut and set into an answer unread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/* `limit` and `skip` set, else zero … listing_free(). */
struct listing {
    size_t limit; /* bytes */
    size_t skip;  /* entries at its beginning that are not wanted */
    struct buffer text;
    bool cut;        /* it did not fit */
    bool incomplete; /* something was left out, here or by the porter */
};

void listing_free(struct listing *listing);
void listing_add(struct listing *listing, const char *data, size_t length);
/* When all has come: its entries, with a comma and a line end between them and no brackets around. False: that is no list.
 * Borrowed. */
bool listing_entries(const struct listing *listing, const char **ret, size_t *ret_length);
/* How many such entries are. */
size_t listing_count(const char *entries, size_t length);
/* Append such entries, on one line. 0 or -errno. */
int listing_append(struct buffer *out, const char *entries, size_t length);
