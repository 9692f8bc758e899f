/* What a kernel writes to its own stdout and stderr before and beside its messages: the end of it
 * is kept, for the message that says why a kernel did not start. Read on all the time, so that no
 * writer ever waits.
 *
 * Life: last_words_open → … → last_words_close, again for the next kernel. Zero-initialise. Loop
 * thread. */
#pragma once

#include "base/buffer.h"
#include "base/failure.h"
#include "loop/loop.h"

struct last_words {
    int pipe; /* only meaningful while `source` is set */
    struct source *source;
    struct buffer text;
};

/* Make a pipe, watch it, forget earlier words. *ret_writer is the caller's to give away and close.
 */
int last_words_open(struct last_words *words, struct loop *loop, int *ret_writer,
                    struct failure *why);
/* Take in what is still in the pipe and close it; the words stay. Closed ok. */
void last_words_close(struct last_words *words);
void last_words_free(struct last_words *words);
/* The words as UTF-8 without terminal escapes and without blank ends, for reading; free(). "" if
 * there are none. */
char *last_words_text(const struct last_words *words);
