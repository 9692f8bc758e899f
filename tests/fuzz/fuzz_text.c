/* Text from a sandbox on its way to a client: bytes that are no UTF-8, terminal escapes, long texts in JSON. The first byte says how
 * large the pieces are in which the rest comes. */
#include "fuzz.h"

#include <jansson.h>

#include "base/buffer.h"
#include "base/percent.h"
#include "base/quoted.h"
#include "shim/plain_text.h"
#include "shim/transcript.h"
#include "shim/utf8_mender.h"

static bool mend(const struct input *input, size_t piece, struct buffer *out)
{
    struct utf8_mender mender = {0};
    bool good = true;
    for (size_t at = 0; at < input->left; at += piece) {
        size_t length = input->left - at < piece ? input->left - at : piece;
        good = utf8_mender_feed(&mender, input->data + at, length, out) == 0 && good;
    }
    return utf8_mender_end(&mender, out) == 0 && good;
}

/* As JSON and back it is the same. */
static void quote(const struct buffer *text)
{
    _cleanup_buffer_ struct buffer quoted = {0};
    if (quoted_append(&quoted, text->length ? text->data : "", text->length) < 0)
        return;
    json_auto_t *read =
        json_loadb(quoted.data, quoted.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    check(read || memory_is_short);
    if (read)
        check(json_string_length(read) == text->length &&
              (!text->length || !memcmp(json_string_value(read), text->data, text->length)));
    char *out = own_memory(quoted.length + 1);
    ssize_t r = quoted_decode(quoted.data + 1, quoted.length - 2, out);
    check(r < 0 || ((size_t)r == text->length && (!r || !memcmp(out, text->data, text->length))));
    free(out);
}

static void strip(const struct buffer *text)
{
    char *out = own_memory(text->length + 1);
    size_t length = plain_text_strip(text->length ? text->data : "", text->length, out);
    check(length <= text->length && !memchr(out, '\x1b', length));
    free(out);
}

static void cut(const struct buffer *text)
{
    enum {
        LIMIT = 512
    };
    struct transcript transcript;
    _cleanup_buffer_ struct buffer out = {0};
    transcript_init(&transcript, LIMIT);
    transcript_append(&transcript, text->length ? text->data : "", text->length);
    transcript_append(&transcript, text->length ? text->data : "", text->length);
    if (transcript_render(&transcript, ".husk/stdout-1.txt", &out) == 0)
        check(out.length <= LIMIT && (transcript_is_cut(&transcript) || memory_is_short ||
                                      out.length == 2 * text->length));
    transcript_free(&transcript);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {(const char *)data, size};
    size_t piece = next_byte(&input) + 1;
    _cleanup_buffer_ struct buffer whole = {0}, pieces = {0}, encoded = {0};
    bool good = mend(&input, input.left + 1, &whole);
    good = mend(&input, piece, &pieces) && good;
    if (good)
        check(whole.length == pieces.length &&
              (!whole.length || !memcmp(whole.data, pieces.data, whole.length)));
    quote(&whole);
    strip(&whole);
    cut(&whole);
    _cleanup_free_ char *line = next_line(&input);
    if (percent_encode(line, "/", &encoded) == 0)
        check(encoded.length >= strlen(line));
    return 0;
}
