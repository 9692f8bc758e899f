/* The warm pool, with a keeper and shims that are not real. */
#include "pool_fixture.h"

#include "huskd/expiry.h"

static void test_members_are_nobodys(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(fake_count(&fixture->keeper), 2);
    assert_int_equal(fixture->pool->present, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(find(fixture, fixture->pool->members[i]->text), PROBLEM_SANDBOX_NOT_FOUND);
        assert_false(sandbox_live(fixture->pool->members[i]));
    }
    /* Full is full. */
    run_for(fixture->loop, 50);
    assert_int_equal(creations(fixture), 2);
}

static void test_taking(void **state)
{
    struct fixture *fixture = *state;
    struct sandbox *oldest = fixture->pool->members[0];
    struct link_key key = oldest->record.link_key;
    struct sandbox *first = take(fixture, "first");
    struct sandbox *second = take(fixture, "second");
    assert_ptr_equal(first, oldest);
    assert_ptr_not_equal(first, second);
    assert_memory_equal(&first->record.link_key, &key, sizeof key);
    assert_int_equal(find(fixture, "first"), PROBLEM_NONE);
    assert_int_equal(find(fixture, second->text), PROBLEM_NONE);
    assert_true(first->record.expires_at <= wall_seconds() + 1000);
    assert_int_equal(fixture->pool->present, 0);
    /* Its shim is told whose it is. */
    RUN_UNTIL(fixture->loop, strstr(box_of(fixture, first)->record, "\"name\":\"first\"") != NULL);
    assert_null(strstr(box_of(fixture, first)->record, "recipe"));
    assert_int_equal(fixture->made, 0);
    assert_int_equal(creations(fixture), 2);
    assert_int_equal(fixture->keeper.asked[KEEPER_ADAPT], 0);
    /* The pool waits for silence, then it is filled again. */
    run_for(fixture->loop, 20);
    assert_int_equal(creations(fixture), 2);
    fill(fixture);
    assert_int_equal(fake_count(&fixture->keeper), 4);
    /* A name is taken once. */
    struct problem problem;
    assert_null(create(fixture, (struct wish){.name = "first"}, &problem));
    assert_int_equal(problem.kind, PROBLEM_NAME_TAKEN);
}

/* Creates that never end must not keep the pool empty. */
static void test_silence_is_not_waited_for_forever(void **state)
{
    struct fixture *fixture = *state;
    (void)take(fixture, "");
    (void)take(fixture, "");
    for (int i = 0; i < 12 && creations(fixture) == 2; i++) {
        fixture->pool->used_ms = now_ms();
        skip_time(200);
        run_for(fixture->loop, 5);
    }
    assert_true(creations(fixture) > 2);
}

static void test_environment_is_not_warm(void **state)
{
    struct fixture *fixture = *state;
    struct sandbox *sandbox = create_made(fixture, (struct wish){.env = true});
    assert_non_null(strstr(box_of(fixture, sandbox)->record, "KEY"));
    assert_int_equal(creations(fixture), 3);
    assert_int_equal(pool_warm(fixture->pool), 2);
}

static void test_adapting(void **state)
{
    struct fixture *fixture = *state;
    struct sandbox *oldest = fixture->pool->members[0];
    struct sandbox *sandbox =
        create_made(fixture, (struct wish){.name = "small", .memory_mb = 100});
    assert_ptr_equal(sandbox, oldest);
    assert_int_equal(sandbox->record.limits.memory_bytes, 100 * MIB);
    assert_int_equal(box_of(fixture, sandbox)->limits.memory_bytes, 100 * MIB);
    assert_int_equal(find(fixture, "small"), PROBLEM_NONE);
    assert_int_equal(creations(fixture), 2);
    assert_int_equal(registry_count(fixture->service->registry), 2);
    RUN_UNTIL(fixture->loop, strstr(box_of(fixture, sandbox)->record, "small") != NULL);
}

/* The name is taken while the keeper works on it. */
static void test_adapting_takes_time(void **state)
{
    struct fixture *fixture = *state;
    struct problem problem;
    fixture->keeper.silent = true;
    assert_non_null(create(fixture, (struct wish){.name = "small", .memory_mb = 100}, &problem));
    run_for(fixture->loop, 20);
    assert_int_equal(find(fixture, "small"), PROBLEM_STARTING);
    assert_null(create(fixture, (struct wish){.name = "small"}, &problem));
    assert_int_equal(problem.kind, PROBLEM_NAME_TAKEN);
    assert_int_equal(pool_warm(fixture->pool), 1);
    struct keeper_message answer = fixture->keeper.last[KEEPER_ADAPT];
    fake_send(&fixture->keeper, &answer);
    RUN_UNTIL(fixture->loop, fixture->made == 1);
    fixture->keeper.silent = false;
}

static void test_adapting_refused(void **state)
{
    struct fixture *fixture = *state;
    struct sandbox *oldest = fixture->pool->members[0];
    fixture->keeper.adapt_status = -EBUSY;
    fixture->keeper.adapt_flags = KEEPER_UNCHANGED;
    struct sandbox *sandbox = create_made(fixture, (struct wish){.memory_mb = 100});
    assert_ptr_not_equal(sandbox, oldest);
    assert_int_equal(fixture->keeper.asked[KEEPER_ADAPT], 1);
    assert_int_equal(creations(fixture), 3);
    assert_int_equal(pool_warm(fixture->pool), 2);
    assert_ptr_equal(take(fixture, ""), oldest);
}

static void test_adapting_failed(void **state)
{
    struct fixture *fixture = *state;
    fixture->keeper.adapt_status = -EIO;
    (void)create_made(fixture, (struct wish){.memory_mb = 100});
    assert_int_equal(fixture->keeper.asked[KEEPER_ADAPT], 1);
    assert_int_equal(fixture->keeper.asked[KEEPER_REMOVE], 1);
    fill(fixture);
    assert_int_equal(fake_count(&fixture->keeper), 3);
}

static void test_adapting_for_nobody(void **state)
{
    struct fixture *fixture = *state;
    struct problem problem;
    fixture->keeper.silent = true;
    struct sandbox *sandbox = create(fixture, (struct wish){.memory_mb = 100}, &problem);
    run_for(fixture->loop, 20);
    sandbox_abandon(sandbox);
    struct keeper_message answer = fixture->keeper.last[KEEPER_ADAPT];
    fixture->keeper.silent = false;
    fake_send(&fixture->keeper, &answer);
    RUN_UNTIL(fixture->loop, fixture->keeper.asked[KEEPER_REMOVE] == 1);
    fill(fixture);
    assert_int_equal(fake_count(&fixture->keeper), 2);
    assert_int_equal(fixture->made + fixture->failed, 0);
}

static void test_death_while_adapting(void **state)
{
    struct fixture *fixture = *state;
    struct problem problem;
    struct fake_box *box = box_of(fixture, fixture->pool->members[0]);
    fixture->keeper.silent = true;
    assert_non_null(create(fixture, (struct wish){.name = "heir", .memory_mb = 100}, &problem));
    run_for(fixture->loop, 20);
    fixture->keeper.silent = false;
    fake_shim_hang_up(box);
    RUN_UNTIL(fixture->loop, fixture->made == 1);
    assert_int_equal(find(fixture, "heir"), PROBLEM_NONE);
    fill(fixture);
    assert_int_equal(fake_count(&fixture->keeper), 3);
}

/* The keeper's end says nothing about what it did last. */
static void test_keeper_dies_while_adapting(void **state)
{
    struct fixture *fixture = *state;
    struct problem problem;
    fixture->keeper.silent = true;
    assert_non_null(create(fixture, (struct wish){.memory_mb = 100}, &problem));
    run_for(fixture->loop, 20);
    fixture->keeper.silent = false;
    fake_hang_up(&fixture->keeper);
    RUN_UNTIL(fixture->loop, fixture->made == 1);
    assert_int_equal(fixture->keeper.asked[KEEPER_ADAPT], 1);
    assert_int_equal(fixture->keeper.asked[KEEPER_REMOVE], 1);
}

/* Members have the places that nobody wants, and no more. */
static void test_capacity(void **state)
{
    struct fixture *fixture = *state;
    struct problem problem;
    fixture->config.max_sandboxes = 3;
    (void)create_made(fixture, (struct wish){.env = true});
    assert_int_equal(pool_warm(fixture->pool), 2);
    (void)create_made(fixture, (struct wish){.env = true});
    assert_int_equal(pool_warm(fixture->pool), 1);
    (void)take(fixture, "");
    assert_null(create(fixture, (struct wish){.env = true}, &problem));
    assert_int_equal(problem.kind, PROBLEM_AT_CAPACITY);
    assert_null(create(fixture, (struct wish){.name = ""}, &problem));
    assert_int_equal(problem.kind, PROBLEM_AT_CAPACITY);
    skip_time(BEYOND_QUIET_MS);
    run_for(fixture->loop, 50);
    assert_int_equal(fake_count(&fixture->keeper), 3);
    assert_int_equal(fixture->pool->count, 0);
    /* A place is free again: it is the pool's until somebody wants it. */
    problem_set(&problem, PROBLEM_SANDBOX_CLOSED, "closed");
    sandbox_close(fixture->sandbox, ENDED_CLOSED, &problem, (struct sandbox_waiter){0});
    RUN_UNTIL(fixture->loop, pool_warm(fixture->pool) == 1);
}

/* A second, two, four, …; and nobody calls the service ill for it. */
static void test_failures(void **state)
{
    struct fixture *fixture = *state;
    char reasons[SERVICE_REASONS][320];
    fixture->keeper.create_status = -ENOSPC;
    (void)take(fixture, "");
    skip_time(BEYOND_QUIET_MS);
    for (unsigned i = 1; i <= 4; i++) {
        RUN_UNTIL(fixture->loop, fixture->pool->failed == i);
        int64_t pause = 1000 << (i - 1);
        skip_time(pause - 300);
        run_for(fixture->loop, 20);
        assert_int_equal(fixture->pool->failed, i);
        skip_time(300);
    }
    assert_int_equal(service_unhealthy(fixture->service, reasons), 0);
    assert_non_null(strstr(fixture->pool->last_failure, "no room"));
    (void)take(fixture, "");
    fixture->keeper.create_status = 0;
    /* Plain creates work meanwhile. */
    (void)create_made(fixture, (struct wish){.env = true});
    skip_time(20 * 1000);
    fill(fixture);
    assert_int_equal(fixture->pool->failed, 0);
}

/* Who waits longest gets a member that becomes ready, in place of his own that was not begun. */
static void test_line(void **state)
{
    struct fixture *fixture = *state;
    struct problem problem;
    fixture->config.max_sandboxes = 8;
    fixture->keeper.shim_silent = true;
    (void)take(fixture, "");
    (void)take(fixture, "");
    skip_time(BEYOND_QUIET_MS);
    RUN_UNTIL(fixture->loop, fake_count(&fixture->keeper) == 3);
    assert_int_equal(pool_making(fixture->pool), 1);
    /* Only half of the places are the pool's. */
    run_for(fixture->loop, 20);
    assert_int_equal(fixture->service->creations.held, 1);
    struct sandbox *member = fixture->pool->members[0];
    assert_non_null(create(fixture, (struct wish){.env = true}, &problem));
    assert_non_null(create(fixture, (struct wish){.env = true}, &problem));
    assert_non_null(create(fixture, (struct wish){.name = "first"}, &problem));
    assert_non_null(create(fixture, (struct wish){.name = "second"}, &problem));
    RUN_UNTIL(fixture->loop, fake_count(&fixture->keeper) == 4);
    assert_int_equal(fixture->service->creations.waiting, 3);
    fake_shim_status(box_of(fixture, member), "ready", false);
    RUN_UNTIL(fixture->loop, fixture->made == 1);
    assert_ptr_equal(fixture->sandbox, member);
    assert_string_equal(member->record.name, "first");
    assert_int_equal(find(fixture, "second"), PROBLEM_STARTING);
    /* The others go on as they would have, and the pool has to wait for them. */
    assert_int_equal(fixture->pool->count, 0);
    assert_int_equal(fixture->service->creations.waiting, 1);
}

static void test_image_changes(void **state)
{
    struct fixture *fixture = *state;
    struct id old = fixture->pool->members[0]->id;
    use_image(fixture, fixture->other_image);
    (void)create_made(fixture, (struct wish){.name = ""});
    assert_null(fake_find(&fixture->keeper, old.bytes));
    fill(fixture);
    assert_int_equal(fake_count(&fixture->keeper), 3);
    /* Without an image nothing is kept. */
    use_image(fixture, "/nonexistent");
    pool_wake(fixture->pool);
    RUN_UNTIL(fixture->loop, fake_count(&fixture->keeper) == 1);
    assert_int_equal(fixture->pool->present, 0);
}

static void test_age(void **state)
{
    struct fixture *fixture = *state;
    struct sandbox *oldest = fixture->pool->members[0];
    struct id id = oldest->id;
    assert_true(expiry_left_ms(oldest, up_seconds(), now_ms()) <= 3600 * 1000);
    oldest->record.expires_up = up_seconds();
    timer_arm(oldest->timer, 0);
    RUN_UNTIL(fixture->loop, !fake_find(&fixture->keeper, id.bytes));
    fill(fixture);
    char text[ID_TEXT_SIZE];
    id_format(id, text);
    assert_int_equal(find(fixture, text), PROBLEM_SANDBOX_NOT_FOUND);
}

/* One whose kernel had to be started again, or that is gone, is of no use. */
static void test_members_that_fail(void **state)
{
    struct fixture *fixture = *state;
    struct sandbox *member = fixture->pool->members[0];
    char text[ID_TEXT_SIZE];
    memcpy(text, member->text, sizeof text);
    fake_shim_status(box_of(fixture, member), "restarting", false);
    RUN_UNTIL(fixture->loop, fixture->keeper.asked[KEEPER_REMOVE] == 1);
    assert_int_equal(find(fixture, text), PROBLEM_SANDBOX_NOT_FOUND);
    fill(fixture);
    fake_shim_hang_up(box_of(fixture, fixture->pool->members[0]));
    RUN_UNTIL(fixture->loop, fixture->keeper.asked[KEEPER_REMOVE] == 2);
    fill(fixture);
    /* The keeper lost one without a word. */
    struct fake_box *box = box_of(fixture, fixture->pool->members[0]);
    box->hidden = true;
    expiry_sweep(fixture->service);
    RUN_UNTIL(fixture->loop, creations(fixture) == 5);
    fill(fixture);
    box->hidden = false;
    assert_int_equal(fixture->pool->present, 2);
}

static void test_keeper_is_away(void **state)
{
    struct fixture *fixture = *state;
    char away[FAKE_PATH];
    (void)snprintf(away, sizeof away, "%s.away", fixture->keeper.folder);
    assert_int_equal(rename(fixture->keeper.socket, away), 0);
    fake_hang_up(&fixture->keeper);
    RUN_UNTIL(fixture->loop, !keeper_client_connected(fixture->service->keeper));
    /* What is warm can be had without it. */
    (void)take(fixture, "");
    skip_time(BEYOND_QUIET_MS);
    run_for(fixture->loop, 50);
    assert_int_equal(creations(fixture), 2);
    assert_int_equal(fixture->pool->failed, 0);
    assert_int_equal(rename(away, fixture->keeper.socket), 0);
    RUN_UNTIL(fixture->loop, pool_warm(fixture->pool) == 2);
}

static void test_memory_bounds_it(void **state)
{
    struct fixture *fixture = *state;
    fixture->config.pool_memory_mb = 2 * MEMORY_PER_SANDBOX_MB - 1;
    restart_service(fixture);
    assert_int_equal(fixture->pool->size, 1);
    RUN_UNTIL(fixture->loop, fake_count(&fixture->keeper) == 1);
    assert_int_equal(pool_warm(fixture->pool), 1);
}

static void test_nothing_is_made_while_stopping(void **state)
{
    struct fixture *fixture = *state;
    (void)take(fixture, "");
    fixture->service->phase = SERVICE_STOPPING;
    skip_time(BEYOND_QUIET_MS);
    pool_wake(fixture->pool);
    run_for(fixture->loop, 30);
    assert_int_equal(creations(fixture), 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_members_are_nobodys),
        TEST(test_taking),
        TEST(test_silence_is_not_waited_for_forever),
        TEST(test_environment_is_not_warm),
        TEST(test_adapting),
        TEST(test_adapting_takes_time),
        TEST(test_adapting_refused),
        TEST(test_adapting_failed),
        TEST(test_adapting_for_nobody),
        TEST(test_death_while_adapting),
        TEST(test_keeper_dies_while_adapting),
        TEST(test_capacity),
        TEST(test_failures),
        TEST(test_line),
        TEST(test_image_changes),
        TEST(test_age),
        TEST(test_members_that_fail),
        TEST(test_keeper_is_away),
        TEST(test_memory_bounds_it),
        TEST(test_nothing_is_made_while_stopping),
    };
    log_setup("test", LOG_ERROR, LOG_FORMAT_TEXT);
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
