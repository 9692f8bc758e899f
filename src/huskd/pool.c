#include "huskd/pool.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/failure.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "husk/version.h"
#include "huskd/config.h"
#include "huskd/handover.h"
#include "huskd/keeper_client.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "loop/loop.h"

enum {
    QUIET_MS = 250,
    PATIENCE_MS = 2000,
    FIRST_RETRY_MS = 1000,
    SLOWEST_RETRY_MS = 60 * 1000,
    SCARCE_MS = 5000,    /* until memory is looked at again */
    SCARCE_FRACTION = 8, /* less than an eighth of the machine's memory is left */
    WARM_SECONDS = 3600,
    STAGGER_SECONDS = 60 /* those made together do not end together */
};

/* --- what members are made of ------------------------------------------------------------------- */

static struct sandbox_limits standard_limits(const struct config *config)
{
    return (struct sandbox_limits){.memory_bytes = config->memory_mb.standard * MIB,
                                   .disk_bytes = config->disk_mb.standard * MIB,
                                   .cpu_millis = (uint32_t)(config->cpus * 1000 + 0.5),
                                   .pids = (uint32_t)config->pids.standard};
}

/* False: there is no image, so nothing can be made and nothing is right. */
static bool write_recipe(const struct config *config, char recipe[RECIPE_SIZE])
{
    struct stat image;
    struct sandbox_limits limits = standard_limits(config);
    recipe[0] = '\0';
    return stat(config->image, &image) == 0 &&
           format_text(recipe, RECIPE_SIZE,
                       "%s image=%jx:%jx:%jx memory=%" PRIu64 " disk=%" PRIu64 " cpu=%" PRIu32
                       " pids=%" PRIu32 " link=%" PRIu64,
                       HUSK_VERSION, (uintmax_t)image.st_dev, (uintmax_t)image.st_ino,
                       (uintmax_t)image.st_mtime, limits.memory_bytes, limits.disk_bytes,
                       limits.cpu_millis, limits.pids, config->link_seconds) >= 0;
}

static bool on_its_way(const struct sandbox *sandbox)
{
    return sandbox->state < SANDBOX_WARM;
}

/* A member that is being adapted has somebody who waits for it; it is as good as the day he asked. */
static void drop_stale(struct pool *pool)
{
    bool known = *pool->recipe;
    if (!write_recipe(pool->service->config, pool->recipe) && known)
        log_event(LOG_WARNING, "there is no image; no sandboxes are kept warm", "image",
                  pool->service->config->image, NULL);
    for (size_t i = pool->count; i-- > 0;) {
        struct sandbox *member = pool->members[i];
        if (member->state != SANDBOX_ADAPTING && strcmp(member->record.recipe, pool->recipe) != 0)
            sandbox_abandon(member);
    }
}

/* --- counting ----------------------------------------------------------------------------------- */

size_t pool_warm(const struct pool *pool)
{
    size_t warm = 0;
    for (size_t i = 0; i < pool->count; i++)
        warm += pool->members[i]->state == SANDBOX_WARM;
    return warm;
}

size_t pool_making(const struct pool *pool)
{
    size_t making = 0;
    for (size_t i = 0; i < pool->count; i++)
        making += on_its_way(pool->members[i]);
    return making;
}

static bool full(const struct pool *pool)
{
    return pool->count >= pool->size;
}

/* --- refilling ---------------------------------------------------------------------------------- */

/* The keys of /proc/meminfo, in kB. 0: unknown. */
static uint64_t memory_line(const char *text, const char *key)
{
    const char *line = strstr(text, key);
    uint64_t kilobytes = 0;
    return line && sscanf(line + strlen(key), ": %" SCNu64, &kilobytes) == 1 ? kilobytes : 0;
}

static bool memory_is_scarce(void)
{
    char text[4096];
    if (read_file_at(AT_FDCWD, "/proc/meminfo", text, sizeof text) < 0)
        return false;
    uint64_t available = memory_line(text, "MemAvailable");
    return available && available < memory_line(text, "MemTotal") / SCARCE_FRACTION;
}

/* Nobody may have to wait because of a member that is being made. Who ends such a state wakes the pool. */
static bool may_make(const struct pool *pool)
{
    const struct service *service = pool->service;
    const struct slots *slots = &service->creations;
    uint64_t share = slots->limit / 2 ? slots->limit / 2 : 1;
    return service->phase == SERVICE_RUNNING && keeper_client_connected(service->keeper) &&
           slots->waiting == 0 && slots->held < slots->limit && pool_making(pool) < share &&
           registry_count(service->registry) < service->config->max_sandboxes && *pool->recipe;
}

/* Milliseconds until it may begin with the next one; 0: now. */
static uint64_t wait_ms(const struct pool *pool, uint64_t now)
{
    if (pool->not_before_ms > now)
        return pool->not_before_ms - now;
    uint64_t quiet = pool->used_ms + QUIET_MS, patient = pool->lacking_ms + PATIENCE_MS;
    uint64_t until = quiet < patient ? quiet : patient;
    if (pool->used_ms && until > now)
        return until - now;
    return memory_is_scarce() ? SCARCE_MS : 0;
}

static void made(struct sandbox *sandbox, const struct problem *problem, void *user)
{
    struct pool *pool = user;
    if (!problem) {
        pool->failed = 0;
        pool->not_before_ms = 0;
        pool_became_warm(pool, sandbox);
        return;
    }
    uint64_t pause = FIRST_RETRY_MS;
    for (unsigned i = 0; i < pool->failed && pause < SLOWEST_RETRY_MS; i++)
        pause *= 2;
    pool->failed++;
    pool->not_before_ms = now_ms() + (pause < SLOWEST_RETRY_MS ? pause : SLOWEST_RETRY_MS);
    (void)format_text(pool->last_failure, sizeof pool->last_failure, "%.200s", problem->detail);
    log_event(LOG_WARNING, "no sandbox could be made for the pool", "reason", problem->detail,
              "failures", log_number(pool->failed), NULL);
    pool_wake(pool);
}

static bool make_one(struct pool *pool)
{
    struct record record = {.created_at = wall_seconds(),
                            .limits = standard_limits(pool->service->config)};
    record_expire_in(&record, WARM_SECONDS + (int64_t)pool->count * STAGGER_SECONDS);
    memcpy(record.recipe, pool->recipe, sizeof record.recipe);
    return sandbox_warm_up(pool->service, &record,
                           (struct sandbox_waiter){.callback = made, .user = pool});
}

static void tend(struct timer *timer, void *user)
{
    struct pool *pool = user;
    if (pool->service->phase != SERVICE_RUNNING)
        return;
    drop_stale(pool);
    if (full(pool))
        pool->lacking_ms = 0;
    else if (!pool->lacking_ms)
        pool->lacking_ms = now_ms();
    while (!full(pool) && may_make(pool)) {
        uint64_t wait = wait_ms(pool, now_ms());
        if (wait > 0) {
            timer_arm(timer, wait);
            return;
        }
        if (!make_one(pool))
            return;
    }
}

void pool_begin(struct pool *pool)
{
    for (size_t i = 0; i < MAX_POOL_SIZE; i++) {
        struct id id = pool->ledger.entries[i];
        const struct sandbox *sandbox = registry_find_id(pool->service->registry, id);
        if (!sandbox || sandbox->state != SANDBOX_WARM)
            ledger_remove(&pool->ledger, id);
    }
    pool_wake(pool);
}

void pool_pause(struct pool *pool, uint64_t milliseconds)
{
    pool->not_before_ms = now_ms() + milliseconds;
}

void pool_wake(struct pool *pool)
{
    if (pool->size > 0)
        timer_arm(pool->timer, 0);
}

/* --- being used --------------------------------------------------------------------------------- */

struct sandbox *pool_take(struct pool *pool, const struct sandbox_limits *limits)
{
    pool->used_ms = now_ms();
    pool_wake(pool);
    if (pool->count == 0)
        return NULL;
    drop_stale(pool);
    struct sandbox *oldest = NULL;
    for (size_t i = 0; i < pool->count && !oldest; i++) {
        if (pool->members[i]->state == SANDBOX_WARM)
            oldest = pool->members[i];
    }
    if (oldest && !same_limits(&oldest->record.limits, limits) &&
        !keeper_client_connected(pool->service->keeper))
        return NULL;
    return oldest;
}

/* One that is on its way is less of a loss than one that is there. */
void pool_make_room(struct pool *pool)
{
    const struct service *service = pool->service;
    struct sandbox *victim = NULL;
    if (registry_count(service->registry) < service->config->max_sandboxes)
        return;
    for (size_t i = 0; i < pool->count; i++) {
        struct sandbox *member = pool->members[i];
        if (on_its_way(member) || (member->state == SANDBOX_WARM && !victim))
            victim = member;
    }
    if (victim)
        sandbox_abandon(victim);
}

/* --- told by sandbox.c -------------------------------------------------------------------------- */

void pool_entered(struct pool *pool, struct sandbox *sandbox)
{
    pool->present++;
    if (pool->count < MAX_POOL_SIZE)
        pool->members[pool->count++] = sandbox;
}

bool pool_accepts(const struct pool *pool, const struct sandbox *sandbox)
{
    char recipe[RECIPE_SIZE];
    return pool->count <= pool->size && pool->count > 0 &&
           pool->members[pool->count - 1] == sandbox && ledger_has(&pool->ledger, sandbox->id) &&
           sandbox->execution_count == 0 && sandbox->queued == 0 &&
           write_recipe(pool->service->config, recipe) && !strcmp(sandbox->record.recipe, recipe);
}

/* The first in line has waited longest. */
void pool_became_warm(struct pool *pool, struct sandbox *sandbox)
{
    ledger_add(&pool->ledger, sandbox->id);
    struct sandbox *waiting = handover_first_in_line(pool->service);
    if (waiting)
        handover_begin(sandbox, waiting);
}

static void take_out(struct pool *pool, const struct sandbox *sandbox)
{
    for (size_t i = 0; i < pool->count; i++) {
        if (pool->members[i] != sandbox)
            continue;
        pool->count--;
        memmove(&pool->members[i], &pool->members[i + 1],
                (pool->count - i) * sizeof pool->members[0]);
        return;
    }
}

void pool_left(struct pool *pool, const struct sandbox *sandbox)
{
    ledger_remove(&pool->ledger, sandbox->id);
    take_out(pool, sandbox);
}

void pool_gone(struct pool *pool)
{
    husk_assert(pool->present > 0);
    pool->present--;
}

void pool_forget(struct pool *pool, const struct sandbox *sandbox)
{
    take_out(pool, sandbox);
    pool_gone(pool);
}

/* --- life --------------------------------------------------------------------------------------- */

struct pool *pool_new(struct service *service, int ledger_fd)
{
    const struct config *config = service->config;
    struct pool *pool = must_alloc(sizeof *pool);
    pool->service = service;
    ledger_read(&pool->ledger, ledger_fd);
    pool->timer = timer_add(service->loop, tend, pool);
    pool->size = config->pool_memory_mb / MEMORY_PER_SANDBOX_MB;
    if (pool->size > config->pool_size)
        pool->size = config->pool_size;
    if (pool->size < config->pool_size)
        log_event(LOG_WARNING, "fewer sandboxes are kept warm than [pool] size says", "size",
                  log_number((int64_t)pool->size), "reason", "[pool] memory_mb", NULL);
    return pool;
}

struct pool *pool_free(struct pool *pool)
{
    if (!pool)
        return NULL;
    timer_remove(pool->timer);
    ledger_close(&pool->ledger);
    free(pool);
    return NULL;
}
