#include "keeper/id_pool.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/memory.h"

struct id_pool {
    uid_t first;
    unsigned count;
    unsigned next;
    bool used[];
};

struct id_pool *id_pool_new(uid_t first, unsigned count)
{
    struct id_pool *pool = must_alloc(sizeof *pool + count * sizeof pool->used[0]);
    pool->first = first;
    pool->count = count;
    return pool;
}

struct id_pool *id_pool_free(struct id_pool *pool)
{
    free(pool);
    return NULL;
}

int id_pool_take(struct id_pool *pool, uid_t *ret)
{
    for (unsigned tries = 0; tries < pool->count; tries++) {
        unsigned index = pool->next;
        pool->next = (pool->next + 1) % pool->count;
        if (pool->used[index])
            continue;
        pool->used[index] = true;
        *ret = pool->first + index;
        return 0;
    }
    return -EAGAIN;
}

static void set_used(struct id_pool *pool, uid_t id, bool used)
{
    if (id >= pool->first && id - pool->first < pool->count)
        pool->used[id - pool->first] = used;
}

void id_pool_claim(struct id_pool *pool, uid_t id)
{
    set_used(pool, id, true);
}

void id_pool_give_back(struct id_pool *pool, uid_t id)
{
    set_used(pool, id, false);
}
