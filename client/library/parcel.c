#include "library/parcel.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

struct piece {
    struct piece *next;
    void *memory; /* malloc()ed, or NULL: `bytes` */
    json_t *json;
    _Alignas(max_align_t) char bytes[];
};

struct parcel {
    struct piece *pieces;
    _Alignas(max_align_t) char content[];
};

static struct parcel *parcel_of(void *content)
{
    return (struct parcel *)(void *)((char *)content - offsetof(struct parcel, content));
}

void *parcel_new(size_t size)
{
    struct parcel *parcel = calloc(1, sizeof *parcel + size);
    /* cppcheck-suppress memleak ; parcel_of() finds it again */
    return parcel ? parcel->content : NULL;
}

void *parcel_free(void *content)
{
    struct piece *next;
    if (!content)
        return NULL;
    struct parcel *parcel = parcel_of(content);
    for (struct piece *piece = parcel->pieces; piece; piece = next) {
        next = piece->next;
        free(piece->memory);
        json_decref(piece->json);
        free(piece);
    }
    free(parcel);
    return NULL;
}

static struct piece *add_piece(void *content, size_t size)
{
    struct parcel *parcel = parcel_of(content);
    struct piece *piece = size <= SIZE_MAX - sizeof *piece ? calloc(1, sizeof *piece + size) : NULL;
    if (piece) {
        piece->next = parcel->pieces;
        parcel->pieces = piece;
    }
    return piece;
}

void *parcel_add(void *content, size_t size)
{
    struct piece *piece = add_piece(content, size);
    return piece ? piece->bytes : NULL;
}

void *parcel_take(void *content, void *memory)
{
    struct piece *piece = memory ? add_piece(content, 0) : NULL;
    if (!piece) {
        free(memory);
        return NULL;
    }
    piece->memory = memory;
    return memory;
}

int parcel_take_json(void *content, json_t *json)
{
    struct piece *piece = add_piece(content, 0);
    if (!piece) {
        json_decref(json);
        return -ENOMEM;
    }
    piece->json = json;
    return 0;
}
