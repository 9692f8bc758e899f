/* Signed links in requests: against live sandboxes, closed ones, and none. */
#include "unit.h"

#include <sodium.h>

#include "base/clock.h"
#include "base/link.h"
#include "http/link_access.h"
#include "http/request.h"
#include "huskd/caller.h"
#include "huskd/registry.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"

struct fixture {
    struct service service;
    struct caller owner;
    struct sandbox sandbox, other;
    struct request request;
    char query[256];
};

static void make_sandbox(struct fixture *fixture, struct sandbox *sandbox, const char *name)
{
    sandbox->owner = &fixture->owner;
    sandbox->id = id_new();
    id_format(sandbox->id, sandbox->text);
    sandbox->record.link_key = link_key_new();
    (void)snprintf(sandbox->record.name, sizeof sandbox->record.name, "%s", name);
    registry_add(fixture->service.registry, sandbox);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->service.registry = registry_new();
    fixture->service.phase = SERVICE_RUNNING;
    make_sandbox(fixture, &fixture->sandbox, "one");
    make_sandbox(fixture, &fixture->other, "");
    fixture->request.service = &fixture->service;
    fixture->request.query = fixture->query;
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    if (registry_find_id(fixture->service.registry, fixture->sandbox.id))
        registry_remove(fixture->service.registry, &fixture->sandbox, ENDED_UNMADE);
    registry_remove(fixture->service.registry, &fixture->other, ENDED_UNMADE);
    registry_free(fixture->service.registry);
    free(fixture);
    return 0;
}

/* A request for `path` with the query of a link to `signed_path`. */
static void ask(struct fixture *fixture, const char *path, const char *signed_path, int64_t seconds)
{
    struct link_target target = {
        .key = &fixture->sandbox.record.link_key, .id = fixture->sandbox.id, .path = signed_path};
    _cleanup_buffer_ struct buffer url = {0};
    assert_int_equal(link_format(&target, wall_seconds() + seconds, &url), 0);
    (void)snprintf(fixture->query, sizeof fixture->query, "%s", strchr(buffer_text(&url), '?') + 1);
    (void)snprintf(fixture->request.parameter, sizeof fixture->request.parameter, "%s",
                   fixture->sandbox.text);
    (void)snprintf(fixture->request.second_parameter, sizeof fixture->request.second_parameter,
                   "%s", path);
}

static void expect(struct fixture *fixture, enum link_verdict verdict)
{
    struct caller *owner;
    assert_int_equal(link_access_judge(&fixture->request, &owner), verdict);
    if (verdict == LINK_GOOD && fixture->service.phase == SERVICE_RUNNING)
        assert_ptr_equal(owner, &fixture->owner);
}

static void test_good(void **state)
{
    struct fixture *fixture = *state;
    ask(fixture, "a/b", "a/b", 60);
    expect(fixture, LINK_GOOD);
    ask(fixture, "/home/user/a/b", "a/b", 60);
    expect(fixture, LINK_GOOD);
    (void)snprintf(fixture->request.parameter, sizeof fixture->request.parameter, "one");
    expect(fixture, LINK_ABSENT); /* another may have one of this name */
}

static void test_bad(void **state)
{
    struct fixture *fixture = *state;
    ask(fixture, "a", "b", 60);
    expect(fixture, LINK_WRONG);
    ask(fixture, "a", "/home/user/a", 60);
    expect(fixture, LINK_WRONG);
    ask(fixture, "a", "a", -10);
    expect(fixture, LINK_EXPIRED);
    ask(fixture, "b", "a", -10);
    expect(fixture, LINK_WRONG);
    ask(fixture, "a", "a", 60);
    (void)snprintf(fixture->request.parameter, sizeof fixture->request.parameter, "%s",
                   fixture->other.text);
    expect(fixture, LINK_WRONG);
}

static void test_half_a_link(void **state)
{
    struct fixture *fixture = *state;
    static const char *const queries[] = {
        "expires=1",
        "signature=00",
        "expires=&signature=",
        "expires=%00&signature=1",
        "expires=99999999999999999999999999&signature=1",
        "expires=1&signature="
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(queries); i++) {
        ask(fixture, "a", "a", 60);
        (void)snprintf(fixture->query, sizeof fixture->query, "%s", queries[i]);
        expect(fixture, LINK_WRONG);
    }
    (void)snprintf(fixture->query, sizeof fixture->query, "x=1");
    expect(fixture, LINK_ABSENT);
    fixture->request.query = NULL;
    expect(fixture, LINK_ABSENT);
}

/* Of a closed sandbox the key is still known; of one that never was there is nothing to know. */
static void test_closed(void **state)
{
    struct fixture *fixture = *state;
    ask(fixture, "a", "a", 60);
    registry_remove(fixture->service.registry, &fixture->sandbox, ENDED_CLOSED);
    expect(fixture, LINK_GOOD);
    ask(fixture, "b", "a", 60);
    expect(fixture, LINK_WRONG);
    (void)snprintf(fixture->request.parameter, sizeof fixture->request.parameter, "nobody");
    expect(fixture, LINK_ABSENT);
    fixture->request.parameter[0] = '\0';
    expect(fixture, LINK_ABSENT);
}

static void test_starting(void **state)
{
    struct fixture *fixture = *state;
    fixture->service.phase = SERVICE_STARTING;
    ask(fixture, "b", "a", 60);
    expect(fixture, LINK_GOOD);
    fixture->request.query = NULL;
    expect(fixture, LINK_ABSENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    if (sodium_init() < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        TEST(test_good),   TEST(test_bad),      TEST(test_half_a_link),
        TEST(test_closed), TEST(test_starting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
