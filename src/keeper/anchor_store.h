/* The anchor's side of the descriptor store: the list of what was put, given back to each new
 * keeper. Owns the descriptors. */
#pragma once

#include "keeper/descriptor_store.h"

struct anchor_store;

struct anchor_store *anchor_store_new(void);
void anchor_store_put(struct anchor_store *store, const struct stored_message *message,
                      const int *fds, size_t count);
void anchor_store_drop(struct anchor_store *store, const uint8_t id[ID_BYTES]);
/* Send everything, then STORED_END. 0 or -errno. */
int anchor_store_replay(const struct anchor_store *store, int socket);
