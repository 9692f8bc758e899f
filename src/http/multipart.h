/* Forms with files (multipart/form-data, RFC 7578), parsed as they come in, in constant memory. Pure.
 *
 * Our own, and not libmicrohttpd's post processor, for three reasons: that cannot stop where a file begins, and a file must be
 * asked for there; it does not know `filename*`, with which some clients send names that are not ASCII, nor escaped quotes; and it
 * does not tell two parts of the same name from one that comes in pieces. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "husk/limits.h"

enum {
    MULTIPART_BOUNDARY_SIZE = 71, /* RFC 2046: up to 70 characters */
    MULTIPART_NAME_SIZE = MAX_FILE_PATH_BYTES + 1
};

struct multipart_part {
    char name[MULTIPART_NAME_SIZE]; /* of the field; "": it has none */
    char file_name[MULTIPART_NAME_SIZE];
    bool is_file; /* it has a file name */
};

struct multipart_events {
    /* A part begins. False: stop here for now; what is fed next belongs to this part. */
    bool (*part)(const struct multipart_part *part, void *user);
    /* More of its content. False: stop for good. */
    bool (*data)(const char *data, size_t length, void *user);
    void *user;
};

struct multipart;

/* From the value of Content-Type. 0; -ENOENT: it is not a form with files; -EINVAL: it is one without a good boundary. */
int multipart_boundary(const char *content_type, char boundary[MULTIPART_BOUNDARY_SIZE]);

struct multipart *multipart_new(const char *boundary, const struct multipart_events *events);
void multipart_free(struct multipart *form); /* NULL ok */

/* How many bytes were taken: all of them, unless a callback said stop. -EBADMSG: this is not well-formed, or a name in it is not
 * UTF-8 or too long. */
ssize_t multipart_feed(struct multipart *form, const char *data, size_t length);
/* Has its end been seen? */
bool multipart_complete(const struct multipart *form);
