/* Links to files of a sandbox that work without the API key: /sandbox/<id>/download/<path>?expires=…&signature=…
 *
 * Each sandbox has a key of its own, which huskd makes and the sandbox's shim knows: whoever takes over a shim can sign links
 * to files of that sandbox, which it can read anyway, and no others. The signature is HMAC-SHA256 over a fixed-size head
 * (purpose, id, expiry) and the path, so that no two links are signed alike. sodium_init() comes first. */
#pragma once

#include <stdint.h>

#include "base/buffer.h"
#include "base/id.h"

enum {
    LINK_KEY_BYTES = 32,
    LINK_KEY_TEXT_SIZE = 2 * LINK_KEY_BYTES + 1,
    LINK_SIGNATURE_BYTES = 32,
    LINK_SIGNATURE_TEXT_SIZE = 2 * LINK_SIGNATURE_BYTES + 1,
    LINK_EXPIRES_TEXT_SIZE = 20 /* Unix seconds */
};

struct link_key {
    uint8_t bytes[LINK_KEY_BYTES];
};

/* What a link leads to. All borrowed. */
struct link_target {
    const struct link_key *key;
    struct id id;
    const char *path; /* decoded, relative to the working directory */
};

struct link_key link_key_new(void);                                              /* random */
void link_key_format(const struct link_key *key, char text[LINK_KEY_TEXT_SIZE]); /* hex */
int link_key_parse(const char *text, struct link_key *ret);                      /* 0 or -EINVAL */

/* Append the link to `out`. 0 or what buffer_append() says. */
int link_format(const struct link_target *target, int64_t expires, struct buffer *out);
/* Is this one of ours? 0; -EACCES: no, the texts are not well-formed or the signature is of something else; -ETIME: yes, but
 * it has expired. Takes the same time however wrong the signature is. */
int link_check(const struct link_target *target, const char *expires, const char *signature,
               int64_t now);
