/* The life of sandboxes in huskd, with a keeper and shims that are not real. */
#include "fake_peers.h"

#include <sodium.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "huskd/caller.h"
#include "huskd/config.h"
#include "huskd/expiry.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"

struct seen {
    unsigned made, closed, answers;
    enum problem_kind made_problem, closed_problem, answer_problem;
    char detail[320], body[64];
    struct sandbox *sandbox;
};

struct fixture {
    struct config config;
    struct loop *loop;
    struct fake keeper;
    struct callers *callers;
    struct service *service;
    struct seen seen;
};

static void on_made(struct sandbox *sandbox, const struct problem *problem, void *user)
{
    struct seen *seen = user;
    seen->made++;
    seen->made_problem = problem ? problem->kind : PROBLEM_NONE;
    (void)snprintf(seen->detail, sizeof seen->detail, "%s", problem ? problem->detail : "");
    seen->sandbox = problem ? NULL : sandbox;
}

static void on_closed(struct sandbox *sandbox, const struct problem *problem, void *user)
{
    struct seen *seen = user;
    (void)sandbox;
    seen->closed++;
    seen->closed_problem = problem ? problem->kind : PROBLEM_NONE;
}

static void on_answer(const struct shim_answer *answer, void *user)
{
    struct seen *seen = user;
    seen->answers++;
    seen->answer_problem = answer->problem ? answer->problem->kind : PROBLEM_NONE;
    (void)snprintf(seen->body, sizeof seen->body, "%.*s", (int)answer->length,
                   answer->body ? answer->body : "");
}

static void start_service(struct fixture *fixture)
{
    int fd = unix_connect(fixture->keeper.socket, SOCK_SEQPACKET | SOCK_NONBLOCK);
    assert_true(fd >= 0);
    fixture->service = service_new(&fixture->config, fixture->callers, fixture->loop, fd, -1);
    service_start(fixture->service);
    RUN_UNTIL(fixture->loop, fixture->service->phase == SERVICE_RUNNING);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->loop = loop_new();
    fake_start(&fixture->keeper, fixture->loop);
    config_defaults(&fixture->config);
    fixture->callers = callers_new();
    free(fixture->config.state);
    fixture->config.state = must_copy(fixture->keeper.folder);
    fixture->config.max_sandboxes = 4;
    fixture->config.max_creating = 2;
    fixture->config.pool_size = 0;
    start_service(fixture);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    service_free(fixture->service);
    fake_stop(&fixture->keeper);
    loop_free(fixture->loop);
    config_free(&fixture->config);
    callers_free(fixture->callers);
    free(fixture);
    return 0;
}

static struct sandbox *create(struct fixture *fixture, const char *name, struct problem *problem)
{
    struct record record = {
        .owner = ADMIN_NAME,
        .created_at = wall_seconds(),
        .limits = {.memory_bytes = 1, .disk_bytes = 1, .cpu_millis = 1, .pids = 1}};
    record_expire_in(&record, 1000);
    (void)snprintf(record.name, sizeof record.name, "%s", name);
    return sandbox_create(fixture->service, &record, NULL,
                          (struct sandbox_waiter){.callback = on_made, .user = &fixture->seen},
                          problem);
}

static struct sandbox *create_ready(struct fixture *fixture, const char *name)
{
    struct problem problem;
    unsigned before = fixture->seen.made;
    assert_non_null(create(fixture, name, &problem));
    RUN_UNTIL(fixture->loop, fixture->seen.made == before + 1);
    assert_int_equal(fixture->seen.made_problem, PROBLEM_NONE);
    return fixture->seen.sandbox;
}

static enum problem_kind find(const struct fixture *fixture, const char *reference)
{
    struct problem problem;
    return service_find(fixture->service, callers_admin(fixture->callers), reference, &problem)
               ? PROBLEM_NONE
               : problem.kind;
}

static void test_create_and_close(void **state)
{
    struct fixture *fixture = *state;
    struct problem problem;
    assert_non_null(create(fixture, "name", &problem));
    assert_int_equal(find(fixture, "name"), PROBLEM_STARTING);
    RUN_UNTIL(fixture->loop, fixture->seen.made == 1);
    struct sandbox *sandbox = fixture->seen.sandbox;
    char text[ID_TEXT_SIZE];
    memcpy(text, sandbox->text, sizeof text);
    assert_int_equal(sandbox->state, SANDBOX_READY);
    assert_int_equal(sandbox->execution_count, 3);
    assert_int_equal(sandbox->queued, 1);
    assert_string_equal(json_string_value(json_object_get(sandbox->kernel, "language")), "python");
    assert_int_equal(find(fixture, "name"), PROBLEM_NONE);
    assert_int_equal(find(fixture, text), PROBLEM_NONE);
    problem_set(&problem, PROBLEM_SANDBOX_CLOSED, "closed");
    sandbox_close(sandbox, ENDED_CLOSED, &problem,
                  (struct sandbox_waiter){.callback = on_closed, .user = &fixture->seen});
    assert_int_equal(find(fixture, text), PROBLEM_SANDBOX_CLOSED);
    assert_true(
        registry_name_taken(fixture->service->registry, callers_admin(fixture->callers), "name"));
    RUN_UNTIL(fixture->loop, fixture->seen.closed == 1);
    assert_int_equal(fixture->seen.closed_problem, PROBLEM_NONE);
    assert_int_equal(fake_count(&fixture->keeper), 0);
    assert_int_equal(find(fixture, text), PROBLEM_SANDBOX_CLOSED);
    assert_int_equal(find(fixture, "other"), PROBLEM_SANDBOX_NOT_FOUND);
    assert_false(
        registry_name_taken(fixture->service->registry, callers_admin(fixture->callers), "name"));
}

static void test_refusals(void **state)
{
    struct fixture *fixture = *state;
    struct problem problem;
    assert_non_null(create(fixture, "name", &problem));
    assert_null(create(fixture, "name", &problem));
    assert_int_equal(problem.kind, PROBLEM_NAME_TAKEN);
    for (int i = 1; i < 4; i++)
        assert_non_null(create(fixture, "", &problem));
    assert_null(create(fixture, "", &problem));
    assert_int_equal(problem.kind, PROBLEM_AT_CAPACITY);
    RUN_UNTIL(fixture->loop, fixture->seen.made == 4);
}

/* Two at a time, and a place in line can be given up. */
static void test_line(void **state)
{
    struct fixture *fixture = *state;
    struct problem problem;
    struct sandbox *boxes[4];
    fixture->keeper.silent = true;
    for (int i = 0; i < 4; i++)
        boxes[i] = create(fixture, "", &problem);
    run_for(fixture->loop, 20);
    assert_int_equal(fixture->keeper.asked[KEEPER_CREATE], 2);
    assert_int_equal(boxes[1]->state, SANDBOX_CREATING);
    assert_int_equal(boxes[2]->state, SANDBOX_QUEUED);
    sandbox_abandon(boxes[2]);
    assert_int_equal(registry_count(fixture->service->registry), 3);
    /* Given up while the keeper works: the next may go, and what comes of it is removed. */
    sandbox_abandon(boxes[0]);
    assert_int_equal(boxes[3]->state, SANDBOX_CREATING);
    fixture->keeper.silent = false;
    for (uint64_t tag = 1; tag <= 8; tag++) {
        /* Answer what was left lying: tags count up from one, and the list was asked for first. */
        struct keeper_message message = fixture->keeper.last[KEEPER_CREATE];
        message.tag = tag;
        message.status = -EIO;
        fake_send(&fixture->keeper, &message);
    }
    RUN_UNTIL(fixture->loop, registry_count(fixture->service->registry) == 0);
    assert_int_equal(fixture->seen.made, 2);
    assert_int_equal(fixture->keeper.asked[KEEPER_REMOVE], 3);
}

static void test_keeper_refuses(void **state)
{
    struct fixture *fixture = *state;
    struct problem problem;
    char reasons[SERVICE_REASONS][320];
    static const struct {
        int status;
        enum problem_kind kind;
    } cases[] = {{-EIO, PROBLEM_CREATE_FAILED},
                 {-ENOSPC, PROBLEM_CREATE_UNAVAILABLE},
                 {-EINVAL, PROBLEM_CREATE_FAILED}};
    for (unsigned i = 0; i < 3; i++) {
        fixture->keeper.create_status = cases[i].status;
        assert_non_null(create(fixture, "name", &problem));
        RUN_UNTIL(fixture->loop, fixture->seen.made == i + 1);
        assert_int_equal(fixture->seen.made_problem, cases[i].kind);
        assert_non_null(strstr(fixture->seen.detail, "no room"));
        assert_int_equal(fixture->keeper.asked[KEEPER_REMOVE], i + 1);
    }
    assert_int_equal(registry_count(fixture->service->registry), 0);
    assert_int_equal(find(fixture, "name"), PROBLEM_SANDBOX_NOT_FOUND);
    assert_int_equal(service_unhealthy(fixture->service, reasons), 1);
    fixture->keeper.create_status = 0;
    (void)create_ready(fixture, "name");
    assert_int_equal(service_unhealthy(fixture->service, reasons), 0);
}

static void test_kernel_does_not_start(void **state)
{
    struct fixture *fixture = *state;
    struct problem problem;
    fixture->keeper.shim_silent = true;
    struct sandbox *sandbox = create(fixture, "", &problem);
    RUN_UNTIL(fixture->loop,
              sandbox->state == SANDBOX_STARTING && fixture->keeper.boxes[0].record[0]);
    fake_shim_send(&fixture->keeper.boxes[0], SHIM_DEAD, 0,
                   "{\"detail\": \"no module named ipykernel\"}");
    RUN_UNTIL(fixture->loop, fixture->seen.made == 1);
    assert_int_equal(fixture->seen.made_problem, PROBLEM_CREATE_FAILED);
    assert_non_null(strstr(fixture->seen.detail, "ipykernel"));
    assert_int_equal(fake_count(&fixture->keeper), 0);
}

static uint64_t patient_call(struct fixture *fixture, struct sandbox *sandbox, enum shim_type type,
                             uint64_t patience_ms)
{
    uint64_t tag = 0;
    struct shim_request request = {.payload = "{}",
                                   .length = 2,
                                   .callback = on_answer,
                                   .user = &fixture->seen,
                                   .patience_ms = patience_ms};
    assert_int_equal(sandbox_call(sandbox, type, &request, &tag), 0);
    return tag;
}

static uint64_t call(struct fixture *fixture, struct sandbox *sandbox, enum shim_type type)
{
    return patient_call(fixture, sandbox, type, 60 * 1000);
}

static void test_calls(void **state)
{
    struct fixture *fixture = *state;
    struct sandbox *sandbox = create_ready(fixture, "");
    (void)call(fixture, sandbox, SHIM_EXECUTE);
    RUN_UNTIL(fixture->loop, fixture->seen.answers == 1);
    assert_int_equal(fixture->seen.answer_problem, PROBLEM_NONE);
    assert_string_equal(fixture->seen.body, "{\"stdout\": \"x\"}");
    (void)call(fixture, sandbox, SHIM_INTERRUPT);
    RUN_UNTIL(fixture->loop, fixture->seen.answers == 2);
    assert_int_equal(fixture->seen.answer_problem, PROBLEM_NONE);
    (void)call(fixture, sandbox, SHIM_RESTART);
    RUN_UNTIL(fixture->loop, fixture->seen.answers == 3);
    assert_int_equal(fixture->seen.answer_problem, PROBLEM_KERNEL_UNAVAILABLE);
    fixture->keeper.shim_silent = true;
    uint64_t tag = call(fixture, sandbox, SHIM_EXECUTE);
    run_for(fixture->loop, 20);
    fake_shim_send(&fixture->keeper.boxes[0], SHIM_REJECTED, tag,
                   "{\"code\": \"queue_full\", \"detail\": \"full\"}");
    RUN_UNTIL(fixture->loop, fixture->seen.answers == 4);
    assert_int_equal(fixture->seen.answer_problem, PROBLEM_QUEUE_FULL);
    /* Who goes away hears nothing. */
    tag = call(fixture, sandbox, SHIM_EXECUTE);
    sandbox_forget_call(sandbox, tag);
    fake_shim_send(&fixture->keeper.boxes[0], SHIM_DONE, tag, "{}");
    run_for(fixture->loop, 20);
    assert_int_equal(fixture->seen.answers, 4);
}

static void test_states_follow_the_shim(void **state)
{
    struct fixture *fixture = *state;
    struct sandbox *sandbox = create_ready(fixture, "");
    static const struct {
        const char *name;
        enum sandbox_state state;
    } steps[] = {
        {"busy", SANDBOX_BUSY},   {"restarting", SANDBOX_RESTARTING}, {"busy", SANDBOX_BUSY},
        {"ready", SANDBOX_READY}, {"restarting", SANDBOX_RESTARTING}, {"ready", SANDBOX_READY}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        fake_shim_status(&fixture->keeper.boxes[0], steps[i].name, false);
        RUN_UNTIL(fixture->loop, sandbox->state == steps[i].state);
        assert_string_equal(sandbox_state_name(sandbox), steps[i].name);
    }
}

enum death {
    DEATH_SHIM_ENDS,
    DEATH_SHIM_SAYS_SO,
    DEATH_GARBAGE,
    DEATH_GONE
};

static void kill_box(struct fixture *fixture, enum death how)
{
    struct fake_box *box = &fixture->keeper.boxes[0];
    struct keeper_message gone = {.version = KEEPER_PROTOCOL_VERSION, .type = KEEPER_GONE};
    memcpy(gone.id, box->id, 16);
    switch (how) {
    case DEATH_SHIM_ENDS:
        fake_shim_hang_up(box);
        break;
    case DEATH_SHIM_SAYS_SO:
        fake_shim_send(box, SHIM_DEAD, 0, "{}");
        break;
    case DEATH_GARBAGE:
        fake_shim_send(box, SHIM_STATUS, 0, "not json");
        break;
    case DEATH_GONE:
        fake_box_remove(box);
        fake_send(&fixture->keeper, &gone);
        break;
    }
}

/* However it dies: who waits is told, nothing is left, and its name tells why. */
static void test_deaths(void **state)
{
    struct fixture *fixture = *state;
    struct problem problem;
    for (enum death how = DEATH_SHIM_ENDS; how <= DEATH_GONE; how++) {
        struct sandbox *sandbox = create_ready(fixture, "mortal");
        fixture->keeper.shim_silent = true;
        (void)call(fixture, sandbox, SHIM_EXECUTE);
        run_for(fixture->loop, 10);
        kill_box(fixture, how);
        RUN_UNTIL(fixture->loop, registry_count(fixture->service->registry) == 0);
        assert_int_equal(fixture->seen.answers, (unsigned)how + 1);
        assert_int_equal(fixture->seen.answer_problem, PROBLEM_SANDBOX_CLOSED);
        assert_int_equal(fake_count(&fixture->keeper), 0);
        assert_null(
            service_find(fixture->service, callers_admin(fixture->callers), "mortal", &problem));
        assert_int_equal(problem.kind, PROBLEM_SANDBOX_CLOSED);
        assert_string_equal(problem.why, "died");
        fixture->keeper.shim_silent = false;
    }
}

static void test_expiry(void **state)
{
    struct fixture *fixture = *state;
    struct sandbox *sandbox = create_ready(fixture, "old");
    struct problem problem;
    sandbox_extend(sandbox, 1);
    RUN_UNTIL(fixture->loop, registry_count(fixture->service->registry) == 0);
    assert_null(service_find(fixture->service, callers_admin(fixture->callers), "old", &problem));
    assert_string_equal(problem.why, "expired");
    assert_int_equal(fake_count(&fixture->keeper), 0);
}

static void test_time_left(void **state)
{
    (void)state;
    struct sandbox sandbox = {
        .state = SANDBOX_READY, .used_ms = 1000000, .record = {.expires_up = 1000}};
    assert_int_equal(expiry_left_ms(&sandbox, 990, 1000000), 10 * 1000);
    assert_int_equal(expiry_left_ms(&sandbox, 1000, 1000000), 0);
    assert_int_equal(expiry_left_ms(&sandbox, 5000, 1000000), 0);
    sandbox.record.idle_seconds = 3;
    assert_int_equal(expiry_left_ms(&sandbox, 990, 1000000), 3000);
    assert_int_equal(expiry_left_ms(&sandbox, 990, 1002000), 1000);
    assert_int_equal(expiry_left_ms(&sandbox, 990, 1003000), 0);
    assert_int_equal(expiry_left_ms(&sandbox, 999, 1000000), 1000);
    sandbox.state = SANDBOX_BUSY;
    assert_int_equal(expiry_left_ms(&sandbox, 990, 1009000), 3000);
    sandbox.record = (struct record){.expires_up = INT64_MAX};
    assert_int_equal(expiry_left_ms(&sandbox, 990, 1), 86400 * 1000);
}

static void test_adoption(void **state)
{
    struct fixture *fixture = *state;
    char text[ID_TEXT_SIZE];
    memcpy(text, create_ready(fixture, "kept")->text, sizeof text);
    service_free(fixture->service);
    assert_int_equal(fake_count(&fixture->keeper), 1);
    /* Beside it, one whose shim knows no record. */
    (void)fake_box_make(&fixture->keeper, (const uint8_t[16]){5});
    fixture->keeper.shim_state = "busy";
    start_service(fixture);
    struct problem problem;
    struct sandbox *sandbox =
        service_find(fixture->service, callers_admin(fixture->callers), "kept", &problem);
    assert_non_null(sandbox);
    assert_string_equal(sandbox->text, text);
    assert_int_equal(sandbox->state, SANDBOX_BUSY);
    assert_int_equal(registry_count(fixture->service->registry), 1);
    assert_int_equal(fake_count(&fixture->keeper), 1);
}

static void test_unusable_is_not_adopted(void **state)
{
    struct fixture *fixture = *state;
    static const char *const states[] = {"new", "starting", "dead", "odd"};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        fixture->keeper.shim_state = "ready";
        (void)create_ready(fixture, "half");
        service_free(fixture->service);
        fixture->keeper.shim_state = states[i];
        start_service(fixture);
        assert_int_equal(registry_count(fixture->service->registry), 0);
        assert_int_equal(fake_count(&fixture->keeper), 0);
    }
}

static void close_quietly(struct fixture *fixture, struct sandbox *sandbox)
{
    struct problem problem;
    problem_set(&problem, PROBLEM_SANDBOX_CLOSED, "closed");
    sandbox_close(sandbox, ENDED_CLOSED, &problem, (struct sandbox_waiter){0});
    RUN_UNTIL(fixture->loop, registry_count(fixture->service->registry) == 0);
}

/* A shim that says that its sandbox is another's, or has another name, is not believed: the admin has it then. */
static void test_changed_record_is_not_believed(void **state)
{
    struct fixture *fixture = *state;
    static const char *const changes[][2] = {{"\"owner\":\"admin\"", "\"owner\":\"alice\""},
                                             {"\"name\":\"mine\"", "\"name\":\"hers\""}};
    for (size_t i = 0; i < ARRAY_LENGTH(changes); i++) {
        const struct sandbox *sandbox = create_ready(fixture, "mine");
        struct fake_box *box = fake_find(&fixture->keeper, sandbox->id.bytes);
        service_free(fixture->service);
        char *at = strstr(box->record, changes[i][0]);
        assert_non_null(at);
        memcpy(at, changes[i][1], strlen(changes[i][1]));
        start_service(fixture);
        struct sandbox *kept = registry_first(fixture->service->registry);
        assert_ptr_equal(kept->owner, callers_admin(fixture->callers));
        assert_string_equal(kept->record.name, "");
        assert_int_equal(find(fixture, "hers"), PROBLEM_SANDBOX_NOT_FOUND);
        /* Its shim is told, so that the next huskd has no reason to doubt. */
        RUN_UNTIL(fixture->loop, strstr(box->record, "\"name\":\"\"") != NULL);
        close_quietly(fixture, kept);
    }
}

/* huskd ends while the keeper still works: its answer finds nobody, and that is all. */
static void test_forgotten_with_open_questions(void **state)
{
    struct fixture *fixture = *state;
    struct problem problem;
    fixture->keeper.silent = true;
    struct sandbox *sandbox = create(fixture, "", &problem);
    assert_non_null(create(fixture, "", &problem));
    run_for(fixture->loop, 10);
    sandbox_abandon(sandbox);
    sandbox_forget_all(fixture->service);
    assert_int_equal(registry_count(fixture->service->registry), 0);
    struct keeper_message message = fixture->keeper.last[KEEPER_CREATE];
    fake_send(&fixture->keeper, &message);
    message.tag--;
    fake_send(&fixture->keeper, &message);
    run_for(fixture->loop, 20);
    assert_int_equal(fixture->seen.made, 0);
}

static void test_sweep(void **state)
{
    struct fixture *fixture = *state;
    (void)create_ready(fixture, "stays");
    (void)create_ready(fixture, "missing");
    /* One the keeper lost without a word, its shim still connected; one nobody asked for. */
    fixture->keeper.boxes[1].hidden = true;
    (void)fake_box_make(&fixture->keeper, (const uint8_t[16]){6});
    expiry_sweep(fixture->service);
    RUN_UNTIL(fixture->loop, find(fixture, "missing") == PROBLEM_SANDBOX_CLOSED);
    RUN_UNTIL(fixture->loop, fake_count(&fixture->keeper) == 1);
    assert_int_equal(find(fixture, "stays"), PROBLEM_NONE);
}

/* A shim that hangs must not let its callers hang: the sandbox ends, and they are told. */
static void test_silent_shim(void **state)
{
    struct fixture *fixture = *state;
    struct sandbox *sandbox = create_ready(fixture, "");
    fixture->keeper.shim_silent = true;
    (void)patient_call(fixture, sandbox, SHIM_EXECUTE, 20);
    (void)call(fixture, sandbox, SHIM_INTERRUPT);
    RUN_UNTIL(fixture->loop, fixture->seen.answers == 2 && fake_count(&fixture->keeper) == 0);
    assert_int_not_equal(fixture->seen.answer_problem, PROBLEM_NONE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_create_and_close),
        TEST(test_refusals),
        TEST(test_line),
        TEST(test_keeper_refuses),
        TEST(test_kernel_does_not_start),
        TEST(test_calls),
        TEST(test_silent_shim),
        TEST(test_states_follow_the_shim),
        TEST(test_deaths),
        TEST(test_expiry),
        cmocka_unit_test(test_time_left),
        TEST(test_adoption),
        TEST(test_unusable_is_not_adopted),
        TEST(test_changed_record_is_not_believed),
        TEST(test_forgotten_with_open_questions),
        TEST(test_sweep),
    };
    log_setup("test", LOG_ERROR, LOG_FORMAT_TEXT);
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
