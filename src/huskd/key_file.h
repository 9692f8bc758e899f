/* The text of a keys file (keyring.h says what is in it), line by line: pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/failure.h"
#include "huskd/caller.h"

enum {
    KEY_HASH_BYTES = 32,
    KEY_HASH_TEXT_SIZE = sizeof "sha256:" + 2 * KEY_HASH_BYTES
};

struct key_entry {
    char name[MAX_NAME_LENGTH + 1];
    bool admin;
    unsigned char hash[KEY_HASH_BYTES];
    struct quotas quotas;
};

/* "sha256:…" and back. 0 or -EINVAL. */
int key_hash_parse(const char *text, unsigned char hash[KEY_HASH_BYTES]);
void key_hash_format(const unsigned char hash[KEY_HASH_BYTES], char text[KEY_HASH_TEXT_SIZE]);

/* All lines into `entries`, which has room for MAX_KEYS. `text` is changed. The number of entries, or -EINVAL with the line and what
 * would be right. `standard`: the quotas of users whose lines do not say. */
int key_file_parse(char *text, const struct quotas *standard, struct key_entry *entries,
                   struct failure *why);
