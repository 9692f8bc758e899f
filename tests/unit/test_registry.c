/* Lookups by id and name, and tombstones. */
#include "unit.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "huskd/sandbox.h"

static struct sandbox *make(const char *name)
{
    struct sandbox *sandbox = calloc(1, sizeof *sandbox);
    assert_non_null(sandbox);
    sandbox->id = id_new();
    id_format(sandbox->id, sandbox->text);
    (void)snprintf(sandbox->record.name, sizeof sandbox->record.name, "%s", name);
    return sandbox;
}

static void end(struct registry *registry, struct sandbox *sandbox, enum ending ending)
{
    registry_remove(registry, sandbox, ending);
    free(sandbox);
}

static void test_find(void **state)
{
    (void)state;
    struct registry *registry = registry_new();
    struct sandbox *named = make("first"), *unnamed = make("");
    registry_add(registry, named);
    registry_add(registry, unnamed);
    assert_int_equal(registry_count(registry), 2);
    assert_ptr_equal(registry_find(registry, "first"), named);
    assert_ptr_equal(registry_find(registry, named->text), named);
    assert_ptr_equal(registry_find(registry, unnamed->text), unnamed);
    assert_ptr_equal(registry_find_id(registry, unnamed->id), unnamed);
    assert_null(registry_find(registry, ""));
    assert_null(registry_find(registry, "First"));
    assert_null(registry_find(registry, "00000000-0000-4000-8000-000000000000"));
    assert_true(registry_name_taken(registry, "first"));
    assert_false(registry_name_taken(registry, "second"));
    assert_ptr_equal(registry_first(registry), named);
    assert_ptr_equal(registry_next(named), unnamed);
    assert_null(registry_next(unnamed));
    end(registry, named, ENDED_CLOSED);
    assert_false(registry_name_taken(registry, "first"));
    assert_ptr_equal(registry_first(registry), unnamed);
    end(registry, unnamed, ENDED_CLOSED);
    registry_free(registry);
}

static void test_name_added_later(void **state)
{
    (void)state;
    struct registry *registry = registry_new();
    struct sandbox *sandbox = make("");
    registry_add(registry, sandbox);
    (void)snprintf(sandbox->record.name, sizeof sandbox->record.name, "late");
    assert_null(registry_find(registry, "late"));
    registry_add_name(registry, sandbox);
    assert_ptr_equal(registry_find(registry, "late"), sandbox);
    end(registry, sandbox, ENDED_DIED);
    assert_null(registry_find(registry, "late"));
    registry_free(registry);
}

static void test_tombstones(void **state)
{
    (void)state;
    struct registry *registry = registry_new();
    struct sandbox *sandbox = make("name");
    char text[ID_TEXT_SIZE];
    memcpy(text, sandbox->text, sizeof text);
    registry_add(registry, sandbox);
    assert_null(registry_find_tombstone(registry, "name"));
    end(registry, sandbox, ENDED_EXPIRED);
    assert_int_equal(registry_find_tombstone(registry, text)->ending, ENDED_EXPIRED);
    assert_int_equal(registry_find_tombstone(registry, "name")->ending, ENDED_EXPIRED);
    assert_null(registry_find_tombstone(registry, "other"));
    assert_null(registry_find_tombstone(registry, ""));
    /* The name was used again: the newest counts. */
    sandbox = make("name");
    registry_add(registry, sandbox);
    end(registry, sandbox, ENDED_DIED);
    assert_int_equal(registry_find_tombstone(registry, "name")->ending, ENDED_DIED);
    assert_int_equal(registry_find_tombstone(registry, text)->ending, ENDED_EXPIRED);
    /* One that was never made leaves nothing. */
    sandbox = make("unmade");
    registry_add(registry, sandbox);
    end(registry, sandbox, ENDED_UNMADE);
    assert_null(registry_find_tombstone(registry, "unmade"));
    registry_free(registry);
}

static void test_many(void **state)
{
    (void)state;
    enum {
        MANY = MAX_TOMBSTONES + 500
    };
    static struct sandbox *all[MANY];
    struct registry *registry = registry_new();
    char name[32], oldest[ID_TEXT_SIZE];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "box-%d", i);
        all[i] = make(i % 2 ? name : "");
        registry_add(registry, all[i]);
    }
    assert_int_equal(registry_count(registry), MANY);
    for (int i = 0; i < MANY; i++) {
        assert_ptr_equal(registry_find(registry, all[i]->text), all[i]);
        (void)snprintf(name, sizeof name, "box-%d", i);
        assert_ptr_equal(registry_find(registry, name), i % 2 ? all[i] : NULL);
    }
    memcpy(oldest, all[0]->text, sizeof oldest);
    for (int i = 0; i < MANY; i++)
        end(registry, all[i], ENDED_CLOSED);
    assert_int_equal(registry_count(registry), 0);
    assert_null(registry_find_tombstone(registry, oldest));
    (void)snprintf(name, sizeof name, "box-%d", MANY - 1);
    assert_non_null(registry_find_tombstone(registry, name));
    registry_free(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_name_added_later),
        cmocka_unit_test(test_tombstones),
        cmocka_unit_test(test_many),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
