#include "unit.h"

#include <sys/socket.h>

#include "base/fdio.h"
#include "keeper/anchor_store.h"

struct fixture {
    struct anchor_store *store;
    int anchor, keeper;
    int descriptors; /* open while the store is empty */
};

static int open_store(void **state)
{
    static struct fixture fixture;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return -1;
    fixture = (struct fixture){.store = anchor_store_new(), .anchor = ends[0], .keeper = ends[1]};
    fixture.descriptors = open_descriptors();
    *state = &fixture;
    return 0;
}

/* The anchor keeps its store for life, so there is no function that frees it: empty it first. */
static int close_store(void **state)
{
    struct fixture *fixture = *state;
    for (uint8_t number = 0; number < 10; number++)
        anchor_store_drop(fixture->store, (const uint8_t[ID_BYTES]){number});
    free(fixture->store);
    close_fd(fixture->anchor);
    close_fd(fixture->keeper);
    return 0;
}

/* Sandbox `number` with `count` descriptors, whose files have number * 10 + 0, 1, … bytes. */
static void put(struct fixture *fixture, uint8_t number, uint32_t uid, size_t count)
{
    static const char bytes[100];
    struct stored_message message = {.type = STORED_PUT, .uid = uid, .id = {number}};
    int fds[STORED_DESCRIPTORS];
    for (size_t i = 0; i < count; i++)
        fds[i] = file_with(bytes, number * 10u + i);
    anchor_store_put(fixture->store, &message, fds, count);
}

struct replayed {
    uint32_t uid;
    size_t count;
    off_t sizes[STORED_DESCRIPTORS];
};

/* Replay to a keeper; what came for each sandbox, by its number. Returns how many came. */
static int replay(struct fixture *fixture, struct replayed by_number[10])
{
    int puts = 0;
    memset(by_number, 0, 10 * sizeof by_number[0]);
    assert_int_equal(anchor_store_replay(fixture->store, fixture->anchor), 0);
    for (;;) {
        struct stored_message message;
        int fds[STORED_DESCRIPTORS];
        size_t count;
        assert_int_equal(stored_receive(fixture->keeper, &message, fds, &count), 1);
        if (message.type == STORED_END) {
            assert_int_equal(count, 0);
            assert_int_equal(stored_receive(fixture->keeper, &message, fds, &count), -EAGAIN);
            return puts;
        }
        assert_int_equal(message.type, STORED_PUT);
        assert_in_range(message.id[0], 0, 9);
        puts++;
        struct replayed *one = &by_number[message.id[0]];
        one->uid = message.uid;
        one->count = count;
        for (size_t i = 0; i < count; i++) {
            one->sizes[i] = lseek(fds[i], 0, SEEK_END);
            close(fds[i]);
        }
    }
}

static void an_empty_store_says_only_the_end(void **state)
{
    struct replayed seen[10];
    assert_int_equal(replay(*state, seen), 0);
}

static void every_keeper_gets_everything(void **state)
{
    struct fixture *fixture = *state;
    put(fixture, 1, 1001, STORED_DESCRIPTORS);
    put(fixture, 2, 1002, 2);
    put(fixture, 3, 1003, 0);
    for (int keepers = 0; keepers < 3; keepers++) {
        struct replayed seen[10];
        assert_int_equal(replay(fixture, seen), 3);
        for (uint8_t number = 1; number <= 3; number++) {
            static const size_t counts[] = {0, STORED_DESCRIPTORS, 2, 0};
            assert_int_equal(seen[number].uid, 1000 + number);
            assert_int_equal(seen[number].count, counts[number]);
            for (size_t i = 0; i < counts[number]; i++)
                assert_int_equal(seen[number].sizes[i], number * 10u + i);
        }
    }
    assert_int_equal(open_descriptors(), fixture->descriptors + STORED_DESCRIPTORS + 2);
}

static void what_is_dropped_is_closed_and_gone(void **state)
{
    struct fixture *fixture = *state;
    struct replayed seen[10];
    for (uint8_t number = 1; number <= 4; number++)
        put(fixture, number, number, STORED_DESCRIPTORS);
    /* the first, the last and one in the middle of the list */
    static const uint8_t dropped[] = {4, 1, 2};
    for (size_t i = 0; i < ARRAY_LENGTH(dropped); i++) {
        anchor_store_drop(fixture->store, (const uint8_t[ID_BYTES]){dropped[i]});
        assert_int_equal(open_descriptors(),
                         fixture->descriptors + (3 - (int)i) * STORED_DESCRIPTORS);
        assert_int_equal(replay(fixture, seen), 3 - (int)i);
        assert_int_equal(seen[dropped[i]].count, 0);
    }
    assert_int_equal(seen[3].uid, 3);
    assert_int_equal(seen[3].sizes[2], 32);
}

static void dropping_what_is_not_there_changes_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct replayed seen[10];
    anchor_store_drop(fixture->store, (const uint8_t[ID_BYTES]){1});
    put(fixture, 1, 1, 1);
    anchor_store_drop(fixture->store, (const uint8_t[ID_BYTES]){2});
    anchor_store_drop(fixture->store, (const uint8_t[ID_BYTES]){1, [ID_BYTES - 1] = 1});
    assert_int_equal(replay(fixture, seen), 1);
}

static void a_second_put_replaces_the_first(void **state)
{
    struct fixture *fixture = *state;
    struct replayed seen[10];
    put(fixture, 1, 1001, 2);
    put(fixture, 2, 1002, 1);
    put(fixture, 1, 2001, STORED_DESCRIPTORS);
    assert_int_equal(open_descriptors(), fixture->descriptors + STORED_DESCRIPTORS + 1);
    assert_int_equal(replay(fixture, seen), 2);
    assert_int_equal(seen[1].uid, 2001);
    assert_int_equal(seen[1].count, STORED_DESCRIPTORS);
    assert_int_equal(seen[2].uid, 1002);
}

static void a_keeper_that_is_gone_is_an_error_and_nothing_is_lost(void **state)
{
    struct fixture *fixture = *state;
    struct replayed seen[10];
    put(fixture, 1, 1, STORED_DESCRIPTORS);
    fixture->keeper = close_fd(fixture->keeper);
    assert_int_equal(anchor_store_replay(fixture->store, fixture->anchor), -EPIPE);
    close(fixture->anchor);
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
    fixture->anchor = ends[0];
    fixture->keeper = ends[1];
    assert_int_equal(replay(fixture, seen), 1);
    assert_int_equal(seen[1].count, STORED_DESCRIPTORS);
}

static void an_entry_that_cannot_be_sent_is_an_error(void **state)
{
    struct fixture *fixture = *state;
    struct stored_message message = {.type = STORED_PUT, .id = {1}};
    const int fds[] = {-1};
    anchor_store_put(fixture->store, &message, fds, 1);
    assert_int_equal(anchor_store_replay(fixture->store, fixture->anchor), -EBADF);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_store, close_store)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(an_empty_store_says_only_the_end),
        TEST(every_keeper_gets_everything),
        TEST(what_is_dropped_is_closed_and_gone),
        TEST(dropping_what_is_not_there_changes_nothing),
        TEST(a_second_put_replaces_the_first),
        TEST(a_keeper_that_is_gone_is_an_error_and_nothing_is_lost),
        TEST(an_entry_that_cannot_be_sent_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
