/* The ids of P that sandboxes run under: each live sandbox has one of its own. Handed out in
 * rotation, so that an id that was just given back rests for a while. */
#pragma once

#include <sys/types.h>

struct id_pool;

/* Ids first … first + count - 1. */
struct id_pool *id_pool_new(uid_t first, unsigned count);
struct id_pool *id_pool_free(struct id_pool *pool);
int id_pool_take(struct id_pool *pool, uid_t *ret); /* 0 or -EAGAIN */
void id_pool_claim(struct id_pool *pool, uid_t id); /* one that is known to be in use */
void id_pool_give_back(struct id_pool *pool, uid_t id);
