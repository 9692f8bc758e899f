#include "keeper/anchor_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/fdio.h"
#include "base/memory.h"

struct entry {
    struct entry *next;
    struct stored_message message;
    int fds[STORED_DESCRIPTORS];
    size_t count;
};

struct anchor_store {
    struct entry *entries;
};

struct anchor_store *anchor_store_new(void)
{
    return must_alloc(sizeof(struct anchor_store));
}

void anchor_store_put(struct anchor_store *store, const struct stored_message *message,
                      const int *fds, size_t count)
{
    anchor_store_drop(store, message->id);
    struct entry *entry = must_alloc(sizeof *entry);
    entry->message = *message;
    entry->count = count;
    memcpy(entry->fds, fds, count * sizeof fds[0]);
    entry->next = store->entries;
    store->entries = entry;
}

void anchor_store_drop(struct anchor_store *store, const uint8_t id[ID_BYTES])
{
    for (struct entry **link = &store->entries; *link; link = &(*link)->next) {
        struct entry *entry = *link;
        if (memcmp(entry->message.id, id, ID_BYTES) != 0)
            continue;
        *link = entry->next;
        for (size_t i = 0; i < entry->count; i++)
            close_fd(entry->fds[i]);
        free(entry);
        return;
    }
}

int anchor_store_replay(const struct anchor_store *store, int socket)
{
    for (const struct entry *entry = store->entries; entry; entry = entry->next) {
        int r = stored_send(socket, &entry->message, entry->fds, entry->count);
        if (r < 0)
            return r;
    }
    struct stored_message end = {.type = STORED_END};
    return stored_send(socket, &end, NULL, 0);
}
