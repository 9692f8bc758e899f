/* What was written to stdout and stderr, in bounded memory, for one answer.
 *
 * Life: texts_init → texts_append … → texts_render → texts_free. */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "shim/recorder.h"
#include "shim/transcript.h"

struct texts {
    struct transcript streams[TEXT_STREAMS];
    char *whole[TEXT_STREAMS]; /* paths of files that have all of it; NULL: none */
};

void texts_init(struct texts *texts, size_t limit); /* bytes of each */
void texts_free(struct texts *texts);
void texts_append(struct texts *texts, enum text_stream stream, const char *text, size_t length);
void texts_set_whole(struct texts *texts, enum text_stream stream, const char *path);
void texts_clear(struct texts *texts); /* the paths stay */
bool texts_are_cut(const struct texts *texts);
/* Append the members "stdout" and "stderr" of a JSON object. 0, -ENOSPC or -ENOMEM. */
int texts_render(const struct texts *texts, struct buffer *out);
