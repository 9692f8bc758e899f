/* Lookups by id and name, and tombstones. */
#include "unit.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "huskd/caller.h"
#include "huskd/sandbox.h"

static struct caller *alice, *bob, *admin;

static struct sandbox *make_for(struct caller *owner, const char *name)
{
    struct sandbox *sandbox = calloc(1, sizeof *sandbox);
    assert_non_null(sandbox);
    sandbox->owner = owner;
    sandbox->id = id_new();
    id_format(sandbox->id, sandbox->text);
    (void)snprintf(sandbox->record.name, sizeof sandbox->record.name, "%s", name);
    return sandbox;
}

static struct sandbox *make(const char *name)
{
    return make_for(alice, name);
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
    assert_ptr_equal(registry_find(registry, alice, "first"), named);
    assert_ptr_equal(registry_find(registry, alice, named->text), named);
    assert_ptr_equal(registry_find(registry, alice, unnamed->text), unnamed);
    assert_ptr_equal(registry_find_id(registry, unnamed->id), unnamed);
    assert_null(registry_find(registry, alice, ""));
    assert_null(registry_find(registry, alice, "First"));
    assert_null(registry_find(registry, alice, "00000000-0000-4000-8000-000000000000"));
    assert_true(registry_name_taken(registry, alice, "first"));
    assert_false(registry_name_taken(registry, alice, "second"));
    assert_ptr_equal(registry_first(registry), named);
    assert_ptr_equal(registry_next(named), unnamed);
    assert_null(registry_next(unnamed));
    end(registry, named, ENDED_CLOSED);
    assert_false(registry_name_taken(registry, alice, "first"));
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
    assert_null(registry_find(registry, alice, "late"));
    registry_add_name(registry, sandbox);
    assert_ptr_equal(registry_find(registry, alice, "late"), sandbox);
    end(registry, sandbox, ENDED_DIED);
    assert_null(registry_find(registry, alice, "late"));
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
    assert_null(registry_find_tombstone(registry, alice, "name"));
    end(registry, sandbox, ENDED_EXPIRED);
    assert_int_equal(registry_find_tombstone(registry, alice, text)->ending, ENDED_EXPIRED);
    assert_int_equal(registry_find_tombstone(registry, alice, "name")->ending, ENDED_EXPIRED);
    assert_null(registry_find_tombstone(registry, alice, "other"));
    assert_null(registry_find_tombstone(registry, alice, ""));
    /* The name was used again: the newest counts. */
    sandbox = make("name");
    registry_add(registry, sandbox);
    end(registry, sandbox, ENDED_DIED);
    assert_int_equal(registry_find_tombstone(registry, alice, "name")->ending, ENDED_DIED);
    assert_int_equal(registry_find_tombstone(registry, alice, text)->ending, ENDED_EXPIRED);
    /* One that was never made leaves nothing. */
    sandbox = make("unmade");
    registry_add(registry, sandbox);
    end(registry, sandbox, ENDED_UNMADE);
    assert_null(registry_find_tombstone(registry, alice, "unmade"));
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
        assert_ptr_equal(registry_find(registry, alice, all[i]->text), all[i]);
        (void)snprintf(name, sizeof name, "box-%d", i);
        assert_ptr_equal(registry_find(registry, alice, name), i % 2 ? all[i] : NULL);
    }
    memcpy(oldest, all[0]->text, sizeof oldest);
    for (int i = 0; i < MANY; i++)
        end(registry, all[i], ENDED_CLOSED);
    assert_int_equal(registry_count(registry), 0);
    assert_null(registry_find_tombstone(registry, alice, oldest));
    (void)snprintf(name, sizeof name, "box-%d", MANY - 1);
    assert_non_null(registry_find_tombstone(registry, alice, name));
    registry_free(registry);
}

/* Names belong to owners; who may not see a sandbox does not find it, by whatever he writes. */
static void test_owners(void **state)
{
    (void)state;
    struct registry *registry = registry_new();
    struct sandbox *hers = make_for(alice, "data"), *his = make_for(bob, "data");
    struct sandbox *only_his = make_for(bob, "notes");
    registry_add(registry, hers);
    assert_true(registry_name_taken(registry, alice, "data"));
    assert_false(registry_name_taken(registry, bob, "data"));
    registry_add(registry, his);
    registry_add(registry, only_his);
    assert_ptr_equal(registry_find(registry, alice, "data"), hers);
    assert_ptr_equal(registry_find(registry, bob, "data"), his);
    assert_null(registry_find(registry, alice, his->text));
    assert_null(registry_find(registry, alice, "notes"));
    assert_null(registry_find(registry, alice, "bob:data"));
    assert_null(registry_find(registry, alice, "bob:notes"));
    assert_ptr_equal(registry_find(registry, alice, "alice:data"), hers);
    assert_false(registry_ambiguous(registry, alice, "data"));
    assert_false(registry_ambiguous(registry, alice, "notes"));
    /* The admin names all of them. */
    assert_ptr_equal(registry_find(registry, admin, his->text), his);
    assert_ptr_equal(registry_find(registry, admin, "notes"), only_his);
    assert_ptr_equal(registry_find(registry, admin, "bob:data"), his);
    assert_ptr_equal(registry_find(registry, admin, "alice:data"), hers);
    assert_null(registry_find(registry, admin, "data"));
    assert_true(registry_ambiguous(registry, admin, "data"));
    static const char *const nothing[] = {":data",    "bob:",        ":",
                                          "ali:data", "alice2:data", "bob:data:"};
    for (size_t i = 0; i < ARRAY_LENGTH(nothing); i++)
        assert_null(registry_find(registry, admin, nothing[i]));
    /* His own comes first. */
    struct sandbox *own = make_for(admin, "data");
    registry_add(registry, own);
    assert_ptr_equal(registry_find(registry, admin, "data"), own);
    assert_false(registry_ambiguous(registry, admin, "data"));
    end(registry, own, ENDED_CLOSED);
    end(registry, only_his, ENDED_CLOSED);
    end(registry, his, ENDED_CLOSED);
    end(registry, hers, ENDED_CLOSED);
    registry_free(registry);
}

static void test_nobodys(void **state)
{
    (void)state;
    struct registry *registry = registry_new();
    struct sandbox *warm = make_for(NULL, "");
    registry_add(registry, warm);
    assert_null(registry_find(registry, admin, warm->text));
    assert_null(registry_find(registry, alice, warm->text));
    assert_ptr_equal(registry_find_id(registry, warm->id), warm);
    end(registry, warm, ENDED_UNMADE);
    registry_free(registry);
}

static void test_tombstones_of_owners(void **state)
{
    (void)state;
    struct registry *registry = registry_new();
    struct sandbox *hers = make_for(alice, "data"), *his = make_for(bob, "data");
    struct id id = his->id;
    char text[ID_TEXT_SIZE];
    memcpy(text, his->text, sizeof text);
    registry_add(registry, hers);
    registry_add(registry, his);
    end(registry, hers, ENDED_CLOSED);
    end(registry, his, ENDED_DIED);
    assert_int_equal(registry_find_tombstone(registry, alice, "data")->ending, ENDED_CLOSED);
    assert_int_equal(registry_find_tombstone(registry, bob, "data")->ending, ENDED_DIED);
    assert_null(registry_find_tombstone(registry, alice, text));
    assert_null(registry_find_tombstone(registry, alice, "bob:data"));
    assert_int_equal(registry_find_tombstone(registry, admin, text)->ending, ENDED_DIED);
    assert_int_equal(registry_find_tombstone(registry, admin, "alice:data")->ending, ENDED_CLOSED);
    assert_int_equal(registry_find_tombstone(registry, admin, "bob:data")->ending, ENDED_DIED);
    assert_ptr_equal(registry_find_tombstone_id(registry, id)->owner, bob);
    registry_free(registry);
}

static int make_callers(void **state)
{
    struct callers *callers = callers_new();
    alice = callers_get(callers, "alice");
    bob = callers_get(callers, "bob");
    admin = callers_admin(callers);
    *state = callers;
    return 0;
}

static int free_callers(void **state)
{
    callers_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_name_added_later),
        cmocka_unit_test(test_tombstones),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_owners),
        cmocka_unit_test(test_nobodys),
        cmocka_unit_test(test_tombstones_of_owners),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, make_callers, free_callers);
}
