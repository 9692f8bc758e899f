/* Sandbox ids: random UUIDs, 16 bytes inside, 36 characters in text. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    ID_BYTES = 16,
    ID_TEXT_SIZE = 37
};

struct id {
    uint8_t bytes[ID_BYTES];
};

struct id id_new(void);
void id_format(struct id id, char text[ID_TEXT_SIZE]); /* lower case */
/* Strict: 36 characters, hyphens in place. 0 or -EINVAL. */
int id_parse(const char *text, struct id *ret);
bool id_equal(struct id a, struct id b);
bool id_is_null(struct id id);
