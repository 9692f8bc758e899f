/* A service with a warm pool of two, for its unit tests; keeper and shims are not real. */
#pragma once

#include "fake_peers.h"
#include "skip_time.h"

#include <sodium.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "huskd/caller.h"
#include "huskd/config.h"
#include "huskd/keeper_client.h"
#include "huskd/pool.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"

enum {
    BEYOND_QUIET_MS = 300
};

struct fixture {
    struct config config;
    struct loop *loop;
    struct fake keeper;
    struct callers *callers;
    struct service *service;
    struct pool *pool;
    char image[32], other_image[32];
    unsigned made, failed;
    struct sandbox *sandbox; /* the last that was made */
};

static void on_made(struct sandbox *sandbox, const struct problem *problem, void *user)
{
    struct fixture *fixture = user;
    fixture->made += !problem;
    fixture->failed += problem != NULL;
    fixture->sandbox = problem ? NULL : sandbox;
}

static void start_service(struct fixture *fixture)
{
    struct failure why;
    int fd = unix_connect(fixture->keeper.socket, SOCK_SEQPACKET | SOCK_NONBLOCK);
    assert_true(fd >= 0);
    int ledger = ledger_open(fixture->keeper.folder, &why);
    assert_true(ledger >= 0);
    fixture->service = service_new(&fixture->config, fixture->callers, fixture->loop, fd, ledger);
    fixture->pool = fixture->service->pool;
    service_start(fixture->service);
    RUN_UNTIL(fixture->loop, fixture->service->phase == SERVICE_RUNNING);
}

_unused_ static void restart_service(struct fixture *fixture)
{
    service_free(fixture->service);
    start_service(fixture);
}

_unused_ static void fill(struct fixture *fixture)
{
    skip_time(BEYOND_QUIET_MS);
    RUN_UNTIL(fixture->loop, pool_warm(fixture->pool) == fixture->pool->size);
}

static void use_image(struct fixture *fixture, const char *path)
{
    free(fixture->config.image);
    fixture->config.image = must_copy(path);
}

_unused_ static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->loop = loop_new();
    fake_start(&fixture->keeper, fixture->loop);
    fixture->keeper.execution_count = fixture->keeper.queued = 0;
    config_defaults(&fixture->config);
    fixture->callers = callers_new();
    free(fixture->config.state);
    fixture->config.state = must_copy(fixture->keeper.folder);
    make_directory(fixture->image);
    make_directory(fixture->other_image);
    use_image(fixture, fixture->image);
    fixture->config.max_sandboxes = 6;
    fixture->config.max_creating = 2;
    fixture->config.pool_size = 2;
    fixture->config.pool_memory_mb = 1024;
    start_service(fixture);
    fill(fixture);
    *state = fixture;
    return 0;
}

_unused_ static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char ledger[FAKE_PATH];
    service_free(fixture->service);
    (void)snprintf(ledger, sizeof ledger, "%s/" LEDGER_NAME, fixture->keeper.folder);
    assert_int_equal(unlink(ledger), 0);
    fake_stop(&fixture->keeper);
    loop_free(fixture->loop);
    config_free(&fixture->config);
    callers_free(fixture->callers);
    assert_int_equal(rmdir(fixture->image), 0);
    assert_int_equal(rmdir(fixture->other_image), 0);
    free(fixture);
    return 0;
}

/* --- asking for sandboxes --- */

struct wish {
    const char *name;
    bool env;
    uint64_t memory_mb; /* 0: as everybody */
};

static struct sandbox *create(struct fixture *fixture, struct wish wish, struct problem *problem)
{
    const struct config *config = &fixture->config;
    uint64_t memory = wish.memory_mb ? wish.memory_mb : config->memory_mb.standard;
    struct record record = {.owner = ADMIN_NAME,
                            .created_at = wall_seconds(),
                            .limits = {.memory_bytes = memory * MIB,
                                       .disk_bytes = config->disk_mb.standard * MIB,
                                       .cpu_millis = 1000,
                                       .pids = (uint32_t)config->pids.standard}};
    record_expire_in(&record, 1000);
    (void)snprintf(record.name, sizeof record.name, "%s", wish.name ? wish.name : "");
    json_auto_t *env = wish.env ? json_pack("{s:s}", "KEY", "value") : NULL;
    return sandbox_create(fixture->service, &record, env,
                          (struct sandbox_waiter){.callback = on_made, .user = fixture}, problem);
}

/* One that was warm already: no waiting. */
_unused_ static struct sandbox *take(struct fixture *fixture, const char *name)
{
    struct problem problem;
    struct sandbox *sandbox = create(fixture, (struct wish){.name = name}, &problem);
    assert_non_null(sandbox);
    assert_true(sandbox_live(sandbox));
    return sandbox;
}

_unused_ static struct sandbox *create_made(struct fixture *fixture, struct wish wish)
{
    struct problem problem;
    unsigned before = fixture->made;
    struct sandbox *sandbox = create(fixture, wish, &problem);
    assert_non_null(sandbox);
    assert_false(sandbox_live(sandbox));
    RUN_UNTIL(fixture->loop, fixture->made == before + 1);
    return fixture->sandbox;
}

_unused_ static struct fake_box *box_of(struct fixture *fixture, const struct sandbox *sandbox)
{
    struct fake_box *box = fake_find(&fixture->keeper, sandbox->id.bytes);
    assert_non_null(box);
    return box;
}

_unused_ static enum problem_kind find(const struct fixture *fixture, const char *reference)
{
    struct problem problem;
    return service_find(fixture->service, callers_admin(fixture->callers), reference, &problem)
               ? PROBLEM_NONE
               : problem.kind;
}

_unused_ static unsigned creations(const struct fixture *fixture)
{
    return fixture->keeper.asked[KEEPER_CREATE];
}
