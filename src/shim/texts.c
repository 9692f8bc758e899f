#include "shim/texts.h"

#include <stdlib.h>

#include "base/attributes.h"
#include "base/memory.h"
#include "base/quoted.h"

void texts_init(struct texts *texts, size_t limit)
{
    *texts = (struct texts){0};
    for (size_t i = 0; i < TEXT_STREAMS; i++)
        transcript_init(&texts->streams[i], limit);
}

void texts_free(struct texts *texts)
{
    texts_clear(texts);
    for (size_t i = 0; i < TEXT_STREAMS; i++)
        free(TAKE_POINTER(texts->whole[i]));
}

void texts_append(struct texts *texts, enum text_stream stream, const char *text, size_t length)
{
    transcript_append(&texts->streams[stream], text, length);
}

void texts_set_whole(struct texts *texts, enum text_stream stream, const char *path)
{
    free(texts->whole[stream]);
    texts->whole[stream] = must_copy(path);
}

void texts_clear(struct texts *texts)
{
    for (size_t i = 0; i < TEXT_STREAMS; i++)
        transcript_clear(&texts->streams[i]);
}

bool texts_are_cut(const struct texts *texts)
{
    return transcript_is_cut(&texts->streams[STREAM_STDOUT]) ||
           transcript_is_cut(&texts->streams[STREAM_STDERR]);
}

int texts_render(const struct texts *texts, struct buffer *out)
{
    static const char *const keys[] = {
        [STREAM_STDOUT] = "\"stdout\":", [STREAM_STDERR] = ",\"stderr\":"};
    int r = 0;
    for (size_t i = 0; i < TEXT_STREAMS && r == 0; i++) {
        _cleanup_buffer_ struct buffer text = {0};
        r = transcript_render(&texts->streams[i], texts->whole[i], &text);
        if (r == 0)
            r = buffer_append_text(out, keys[i]);
        if (r == 0)
            r = quoted_append(out, text.data, text.length);
    }
    return r;
}
