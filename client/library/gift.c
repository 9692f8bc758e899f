#include "library/gift.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

struct piece {
    struct piece *next;
    void *memory; /* malloc()ed, or NULL: `bytes` */
    json_t *json;
    _Alignas(max_align_t) char bytes[];
};

struct gift {
    struct piece *pieces;
    _Alignas(max_align_t) char content[];
};

static struct gift *gift_of(void *content)
{
    return (struct gift *)(void *)((char *)content - offsetof(struct gift, content));
}

void *gift_new(size_t size)
{
    struct gift *gift = calloc(1, sizeof *gift + size);
    /* cppcheck-suppress memleak ; gift_of() finds it again */
    return gift ? gift->content : NULL;
}

void *gift_free(void *content)
{
    struct piece *next;
    if (!content)
        return NULL;
    struct gift *gift = gift_of(content);
    for (struct piece *piece = gift->pieces; piece; piece = next) {
        next = piece->next;
        free(piece->memory);
        json_decref(piece->json);
        free(piece);
    }
    free(gift);
    return NULL;
}

static struct piece *add_piece(void *content, size_t size)
{
    struct gift *gift = gift_of(content);
    struct piece *piece = size <= SIZE_MAX - sizeof *piece ? calloc(1, sizeof *piece + size) : NULL;
    if (piece) {
        piece->next = gift->pieces;
        gift->pieces = piece;
    }
    return piece;
}

void *gift_add(void *content, size_t size)
{
    struct piece *piece = add_piece(content, size);
    return piece ? piece->bytes : NULL;
}

void *gift_take(void *content, void *memory)
{
    struct piece *piece = memory ? add_piece(content, 0) : NULL;
    if (!piece) {
        free(memory);
        return NULL;
    }
    piece->memory = memory;
    return memory;
}

int gift_take_json(void *content, json_t *json)
{
    struct piece *piece = add_piece(content, 0);
    if (!piece) {
        json_decref(json);
        return -ENOMEM;
    }
    piece->json = json;
    return 0;
}
