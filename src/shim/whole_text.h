/* The file that holds all of a text of which an answer has only head and tail: `.husk/…` below the sandbox's home directory,
 * for what the shim reads itself (for code the kernel does the same, kernel_image/whole_text.py). Made when the text gets too
 * long for its transcript. A part must not pass for the whole: if it cannot be complete it is removed.
 *
 * The folder belongs to hostile code, under whose id the shim runs: no link is followed, the file is a new one, and writing to
 * the sandbox's disk, which is in memory, does not wait. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "husk/limits.h"
#include "shim/transcript.h"

struct whole_text {
    int home_fd; /* borrowed */
    int folder;  /* -1: not open, like the file */
    int file;
    char path[MAX_TEXT_PATH_LENGTH + 1]; /* below the home directory */
    uint64_t size;
    uint64_t limit;
    bool given_up;
};

/* `name`: of the file in its folder. */
void whole_text_init(struct whole_text *whole, int home_fd, const char *name);
/* Before `text` is appended to `so_far`. */
void whole_text_add(struct whole_text *whole, const struct transcript *so_far, const char *text,
                    size_t length);
/* Closes it. The path if there is a file, else NULL; borrowed. */
const char *whole_text_end(struct whole_text *whole);
