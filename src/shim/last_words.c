#include "shim/last_words.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/memory.h"
#include "base/text.h"
#include "husk/limits.h"
#include "shim/plain_text.h"

enum {
    READ_STEP = 4 * KIB
};

/* Bytes read, 0 at the end, -EAGAIN. */
static ssize_t read_step(struct last_words *words)
{
    char bytes[READ_STEP];
    ssize_t n = read_some(words->pipe, bytes, sizeof bytes);
    if (n <= 0)
        return n;
    if (words->text.length + (size_t)n > MAX_KERNEL_LOG_BYTES)
        buffer_consume(&words->text, words->text.length + (size_t)n - MAX_KERNEL_LOG_BYTES);
    (void)buffer_append(&words->text, bytes, (size_t)n);
    return n;
}

static void readable(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct last_words *words = user;
    ssize_t n = read_step(words);
    if (n == 0 || (n < 0 && n != -EAGAIN))
        last_words_close(words);
}

int last_words_open(struct last_words *words, struct loop *loop, int *ret_writer,
                    struct failure *why)
{
    last_words_close(words);
    buffer_clear(&words->text);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return fail(why, errno, "make a pipe");
    _cleanup_close_ int reader = ends[0], writer = ends[1];
    int r = set_nonblocking(reader, true);
    if (r < 0)
        return fail(why, r, "make a pipe");
    words->source = source_add(loop, reader, EPOLLIN, readable, words);
    if (!words->source)
        return fail(why, errno, "watch a pipe");
    words->pipe = TAKE_DESCRIPTOR(reader);
    *ret_writer = TAKE_DESCRIPTOR(writer);
    return 0;
}

void last_words_close(struct last_words *words)
{
    if (!words->source)
        return;
    words->source = source_remove(words->source);
    /* Not for ever, should someone keep writing. */
    for (int i = 0; i < MAX_KERNEL_LOG_BYTES / READ_STEP && read_step(words) > 0; i++)
        ;
    words->pipe = close_fd(words->pipe);
}

void last_words_free(struct last_words *words)
{
    last_words_close(words);
    buffer_free(&words->text);
}

char *last_words_text(const struct last_words *words)
{
    char *text = must_alloc(words->text.length + 1);
    size_t length = plain_text_strip(words->text.data, words->text.length, text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    size_t start = 0;
    /* The first character may have lost its first bytes. */
    while (start < length &&
           (((unsigned char)text[start] & 0xc0) == 0x80 || isspace((unsigned char)text[start])))
        start++;
    memmove(text, text + start, length - start);
    length -= start;
    text[length] = '\0';
    bool valid = utf8_valid(text, length);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < ' ' && c != '\n' && c != '\t') || (c >= 0x80 && !valid))
            text[i] = '?';
    }
    return text;
}
