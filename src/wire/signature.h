/* Signatures of Jupyter messages: HMAC-SHA256 over the four JSON parts, as lower-case hex.
 *
 * One `struct signatures` per kernel: it holds the key, and the signatures seen lately, because a
 * message that was signed once must not count twice. Pure: no input or output. sodium_init() comes
 * before. */
#pragma once

#include <sodium.h>

#include "wire/part.h"

enum {
    SIGNED_PARTS = 4, /* header, parent header, metadata, content */
    SIGNATURE_TEXT_SIZE = crypto_auth_hmacsha256_BYTES * 2 + 1,
    SIGNATURES_REMEMBERED = 256,
};

struct signatures {
    crypto_auth_hmacsha256_state keyed; /* initialised with the key; copied for each message */
    unsigned char seen[SIGNATURES_REMEMBERED][crypto_auth_hmacsha256_BYTES];
    size_t next; /* the oldest of them */
};

/* Forgets what was seen. `key` is used as it is: the text of the connection file, not decoded. */
void signatures_init(struct signatures *signatures, const char *key, size_t length);
void signature_make(const struct signatures *signatures, const struct part parts[SIGNED_PARTS],
                    char text[SIGNATURE_TEXT_SIZE]);
/* 0, and the signature is remembered; -EBADMSG: wrong; -EALREADY: right, but seen before. */
int signature_check(struct signatures *signatures, struct part claimed,
                    const struct part parts[SIGNED_PARTS]);
