/* A text of any length in bounded memory: its head, its tail, and how much is missing between them.
 * Characters are never cut in two, provided that each append brings whole ones. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

/* transcript_init() … transcript_free(). The members are the module's own. */
struct transcript {
    size_t limit; /* bytes of the rendered text, note about the gap included */
    struct buffer head;
    bool head_full;
    char *tail; /* a ring; NULL until the head is full */
    size_t tail_start;
    size_t tail_length;
    uint64_t missing; /* bytes */
};

void transcript_init(struct transcript *transcript, size_t limit);
void transcript_free(struct transcript *transcript);
/* When memory is out the text counts as missing. */
void transcript_append(struct transcript *transcript, const char *text, size_t length);
void transcript_clear(struct transcript *transcript);
/* How many bytes more can be appended at least, without any being left out. */
size_t transcript_room(const struct transcript *transcript);
bool transcript_is_cut(const struct transcript *transcript);
/* Append the text to `out`: 0, -ENOSPC or -ENOMEM. `whole`: path of a file that has all of it, for the note about what is
 * missing; at most MAX_TEXT_PATH_LENGTH bytes; NULL: there is none. */
int transcript_render(const struct transcript *transcript, const char *whole, struct buffer *out);
