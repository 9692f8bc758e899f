/* What becomes of warm sandboxes when another huskd takes over: taken back, or removed. */
#include "pool_fixture.h"

static void test_adoption(void **state)
{
    struct fixture *fixture = *state;
    struct sandbox *mine = take(fixture, "mine");
    char text[ID_TEXT_SIZE], member[ID_TEXT_SIZE];
    memcpy(text, mine->text, sizeof text);
    fill(fixture);
    memcpy(member, fixture->pool->members[0]->text, sizeof member);
    restart_service(fixture);
    assert_int_equal(pool_warm(fixture->pool), 2);
    assert_int_equal(fixture->pool->present, 2);
    assert_int_equal(creations(fixture), 3);
    assert_int_equal(find(fixture, "mine"), PROBLEM_NONE);
    assert_int_equal(find(fixture, text), PROBLEM_NONE);
    assert_int_equal(find(fixture, member), PROBLEM_SANDBOX_NOT_FOUND);
    assert_string_not_equal(take(fixture, "other")->text, text);
    assert_int_equal(fake_count(&fixture->keeper), 3);
}

enum change {
    CHANGE_IMAGE,
    CHANGE_LIMITS,
    CHANGE_SIZE,
    CHANGE_LEDGER,
    CHANGE_KEEPER,
    CHANGE_USED,
    CHANGE_BUSY,
    CHANGES
};

static void apply(struct fixture *fixture, enum change change)
{
    struct failure why;
    int ledger;
    switch (change) {
    case CHANGE_IMAGE:
        use_image(fixture, fixture->other_image);
        break;
    case CHANGE_LIMITS:
        fixture->config.memory_mb.standard /= 2;
        break;
    case CHANGE_SIZE:
        fixture->config.pool_size = 0;
        break;
    case CHANGE_LEDGER:
        ledger = ledger_open(fixture->keeper.folder, &why);
        assert_int_equal(ftruncate(ledger, 0), 0);
        close(ledger);
        break;
    case CHANGE_KEEPER:
        for (size_t i = 0; i < FAKE_BOXES; i++)
            fixture->keeper.boxes[i].limits.pids++;
        break;
    case CHANGE_USED:
        fixture->keeper.execution_count = 1;
        break;
    case CHANGE_BUSY:
        fixture->keeper.shim_state = "busy";
        break;
    case CHANGES:
        break;
    }
}

static void revert(struct fixture *fixture, enum change change)
{
    fixture->config.pool_size = 2;
    fixture->keeper.execution_count = 0;
    fixture->keeper.shim_state = "ready";
    if (change == CHANGE_SIZE)
        restart_service(fixture);
    fill(fixture);
}

/* What was made of something else, or could be somebody's, is not given to anybody. */
static void test_not_adopted(void **state)
{
    struct fixture *fixture = *state;
    for (enum change change = CHANGE_IMAGE; change < CHANGES; change++) {
        struct id old[2] = {fixture->pool->members[0]->id, fixture->pool->members[1]->id};
        service_free(fixture->service);
        apply(fixture, change);
        start_service(fixture);
        RUN_UNTIL(fixture->loop, !fake_find(&fixture->keeper, old[0].bytes) &&
                                     !fake_find(&fixture->keeper, old[1].bytes));
        revert(fixture, change);
        assert_int_equal(fake_count(&fixture->keeper), 2);
        assert_int_equal(fixture->pool->present, 2);
    }
}

/* A shim that was taken over says that its sandbox is the pool's. */
static void test_forged_record(void **state)
{
    struct fixture *fixture = *state;
    struct fake_box *box = box_of(fixture, fixture->pool->members[0]);
    char old[sizeof box->record];
    memcpy(old, box->record, sizeof old);
    (void)take(fixture, "mine");
    RUN_UNTIL(fixture->loop, strstr(box->record, "mine") != NULL);
    memcpy(box->record, old, sizeof old);
    fill(fixture);
    restart_service(fixture);
    assert_int_equal(pool_warm(fixture->pool), 2);
    assert_int_equal(fake_count(&fixture->keeper), 2);
    assert_false(box->there);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_adoption),
        TEST(test_not_adopted),
        TEST(test_forged_record),
    };
    log_setup("test", LOG_ERROR, LOG_FORMAT_TEXT);
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
