#include "shim/transcript.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "husk/limits.h"

enum {
    NOTE_ROOM = 96 + MAX_TEXT_PATH_LENGTH
};

void transcript_init(struct transcript *transcript, size_t limit)
{
    *transcript = (struct transcript){.limit = limit};
}

void transcript_free(struct transcript *transcript)
{
    buffer_free(&transcript->head);
    free(transcript->tail);
    *transcript = (struct transcript){.limit = transcript->limit};
}

void transcript_clear(struct transcript *transcript)
{
    transcript_free(transcript);
}

static size_t head_room(const struct transcript *transcript)
{
    return transcript->limit / 2;
}

static size_t tail_room(const struct transcript *transcript)
{
    return transcript->limit - head_room(transcript) - NOTE_ROOM;
}

/* Into the ring, over its oldest bytes. */
static void append_tail(struct transcript *transcript, const char *text, size_t length)
{
    size_t room = tail_room(transcript);
    if (length > room) {
        transcript->missing += transcript->tail_length + (length - room);
        text += length - room;
        length = room;
        transcript->tail_start = 0;
        transcript->tail_length = 0;
    }
    size_t free_room = room - transcript->tail_length;
    if (length > free_room) {
        size_t lost = length - free_room;
        transcript->missing += lost;
        transcript->tail_start = (transcript->tail_start + lost) % room;
        transcript->tail_length -= lost;
    }
    size_t end = (transcript->tail_start + transcript->tail_length) % room;
    size_t first = length < room - end ? length : room - end;
    memcpy(transcript->tail + end, text, first);
    memcpy(transcript->tail, text + first, length - first);
    transcript->tail_length += length;
}

void transcript_append(struct transcript *transcript, const char *text, size_t length)
{
    if (!transcript->head_full) {
        size_t taken = utf8_cut(text, length, head_room(transcript) - transcript->head.length);
        if (buffer_append(&transcript->head, text, taken) < 0)
            taken = 0;
        transcript->head_full = taken < length;
        text += taken;
        length -= taken;
    }
    if (length == 0)
        return;
    if (!transcript->tail)
        transcript->tail = malloc(tail_room(transcript));
    if (!transcript->tail)
        transcript->missing += length;
    else
        append_tail(transcript, text, length);
}

size_t transcript_room(const struct transcript *transcript)
{
    size_t tail = tail_room(transcript) - transcript->tail_length;
    /* The head may stay some bytes short, where a character does not fit. */
    return tail > 0 && !transcript->head_full
               ? tail + head_room(transcript) - transcript->head.length - 3
               : tail;
}

bool transcript_is_cut(const struct transcript *transcript)
{
    return transcript->missing > 0;
}

int transcript_render(const struct transcript *transcript, const char *whole, struct buffer *out)
{
    int r = buffer_append(out, transcript->head.data, transcript->head.length);
    size_t room = tail_room(transcript);
    size_t start = transcript->tail_start, length = transcript->tail_length;
    uint64_t missing = transcript->missing;
    if (missing > 0) {
        /* The ring may have lost the first bytes of a character: leave out its others too. */
        while (length > 0 && ((unsigned char)transcript->tail[start] & 0xc0) == 0x80) {
            start = (start + 1) % room;
            length--;
            missing++;
        }
        if (r == 0)
            r = buffer_printf(out, "\n[%llu bytes left out%s%s]\n", (unsigned long long)missing,
                              whole ? "; the whole text is in " : "", whole ? whole : "");
    }
    size_t first = length < room - start ? length : room - start;
    if (r == 0 && first > 0)
        r = buffer_append(out, transcript->tail + start, first);
    if (r == 0 && length > first)
        r = buffer_append(out, transcript->tail, length - first);
    return r;
}
