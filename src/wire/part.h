/* One part (frame) of a ZeroMQ message: bytes with a length, borrowed from whoever holds them. */
#pragma once

#include <stddef.h>

struct part {
    const char *data;
    size_t length;
};

#define PART_LITERAL(text) ((struct part){(text), sizeof(text) - 1})
