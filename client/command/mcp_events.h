/* Server-sent events, as huskd sends messages in them: bytes go in, the data of each event comes out. Names, ids and comments of events mean nothing
 * here. Bounded: of an event that is too long nothing comes out, and that is told. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

struct events {
    struct buffer line; /* the beginning of one; limited */
    struct buffer data; /* of the event so far; limited */
    bool has_data;
    bool returned; /* the last byte was a carriage return: a line feed belongs to it */
    void (*on_data)(void *user, const char *data, size_t length); /* borrowed */
    void *user;
};

/* `limit`: bytes of an event. */
void events_init(struct events *events, size_t limit,
                 void (*on_data)(void *user, const char *data, size_t length), void *user);
/* 0; -ENOSPC: an event is too long, or -ENOMEM. */
int events_feed(struct events *events, const char *bytes, size_t length);
void events_free(struct events *events);
