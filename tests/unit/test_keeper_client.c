/* Questions to the keeper, and what becomes of them when it dies. */
#include "fake_peers.h"

#include "huskd/keeper_client.h"

struct seen {
    unsigned answers;
    struct keeper_message last;
    int opened;
    unsigned gone, lost, connected, absent;
    struct id gone_id;
    struct keeper_client *client;
};

static void on_gone(struct id id, void *user)
{
    struct seen *seen = user;
    seen->gone++;
    seen->gone_id = id;
}

static void on_lost(const char *reason, void *user)
{
    assert_non_null(reason);
    ((struct seen *)user)->lost++;
}

static void on_absent(void *user)
{
    ((struct seen *)user)->absent++;
}

static void on_connected(const char *version, void *user)
{
    assert_string_equal(version, "1.2.3");
    ((struct seen *)user)->connected++;
}

static void on_answer(const struct keeper_message *message, void *user)
{
    struct seen *seen = user;
    seen->answers++;
    seen->last = *message;
}

struct fixture {
    struct loop *loop;
    struct fake keeper;
    struct seen seen;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->loop = loop_new();
    fake_start(&fixture->keeper, fixture->loop);
    struct keeper_events events = {.gone = on_gone,
                                   .lost = on_lost,
                                   .absent = on_absent,
                                   .connected = on_connected,
                                   .user = &fixture->seen};
    int fd = unix_connect(fixture->keeper.socket, SOCK_SEQPACKET | SOCK_NONBLOCK);
    assert_true(fd >= 0);
    fixture->seen.client = keeper_client_new(fixture->loop, fd, fixture->keeper.socket, &events);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    keeper_client_free(fixture->seen.client);
    fake_stop(&fixture->keeper);
    loop_free(fixture->loop);
    free(fixture);
    return 0;
}

static uint64_t ask(struct fixture *fixture, enum keeper_type type, uint8_t number)
{
    struct keeper_message message = {.type = type};
    memset(message.id, number, sizeof message.id);
    return keeper_client_ask(fixture->seen.client, &message, on_answer, &fixture->seen);
}

static void test_answers(void **state)
{
    struct fixture *fixture = *state;
    struct seen *seen = &fixture->seen;
    (void)ask(fixture, KEEPER_CREATE, 1);
    assert_int_equal(seen->answers, 0);
    RUN_UNTIL(fixture->loop, seen->answers == 1);
    assert_int_equal(seen->last.status, 0);
    (void)ask(fixture, KEEPER_CREATE, 2);
    (void)ask(fixture, KEEPER_USAGE, 0);
    RUN_UNTIL(fixture->loop, seen->answers == 4);
    assert_int_equal(seen->last.flags, 0);
    assert_int_equal(seen->last.usage.memory_bytes, 12345);
    (void)ask(fixture, KEEPER_REMOVE, 1);
    (void)ask(fixture, KEEPER_REMOVE, 1);
    RUN_UNTIL(fixture->loop, seen->answers == 6);
    assert_int_equal(seen->last.status, -ENOENT);
}

static void test_gone(void **state)
{
    struct fixture *fixture = *state;
    struct keeper_message message = {.version = KEEPER_PROTOCOL_VERSION, .type = KEEPER_GONE};
    memset(message.id, 9, sizeof message.id);
    RUN_UNTIL(fixture->loop, fixture->keeper.fd >= 0);
    fake_send(&fixture->keeper, &message);
    RUN_UNTIL(fixture->loop, fixture->seen.gone == 1);
    assert_memory_equal(fixture->seen.gone_id.bytes, message.id, 16);
}

static void test_forget(void **state)
{
    struct fixture *fixture = *state;
    uint64_t tag = ask(fixture, KEEPER_CREATE, 1);
    keeper_client_forget(fixture->seen.client, tag);
    keeper_client_forget(fixture->seen.client, 12345);
    RUN_UNTIL(fixture->loop, fixture->keeper.asked[KEEPER_CREATE] == 1);
    run_for(fixture->loop, 20);
    assert_int_equal(fixture->seen.answers, 0);
}

/* A creation fails with the keeper, a removal is asked again. */
static void test_keeper_dies(void **state)
{
    struct fixture *fixture = *state;
    struct seen *seen = &fixture->seen;
    (void)fake_box_make(&fixture->keeper,
                        (const uint8_t[16]){7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7});
    fixture->keeper.silent = true;
    (void)ask(fixture, KEEPER_CREATE, 1);
    RUN_UNTIL(fixture->loop, fixture->keeper.asked[KEEPER_CREATE] == 1);
    (void)ask(fixture, KEEPER_REMOVE, 7); /* sent, but the keeper will not have read it */
    fake_hang_up(&fixture->keeper);
    RUN_UNTIL(fixture->loop, seen->answers == 2);
    assert_int_equal(seen->lost, 1);
    RUN_UNTIL(fixture->loop, seen->connected == 1);
    assert_true(keeper_client_connected(seen->client));
    assert_int_equal(seen->last.type, KEEPER_REMOVE);
    assert_int_equal(seen->last.status, 0);
    assert_int_equal(fixture->keeper.asked[KEEPER_CREATE], 1);
    assert_int_equal(fake_count(&fixture->keeper), 0);
}

/* What is asked while there is no keeper waits for the next one. */
static void test_asked_while_away(void **state)
{
    struct fixture *fixture = *state;
    struct seen *seen = &fixture->seen;
    char hidden[FAKE_PATH + 8];
    (void)snprintf(hidden, sizeof hidden, "%s.away", fixture->keeper.socket);
    RUN_UNTIL(fixture->loop, fixture->keeper.fd >= 0);
    assert_int_equal(rename(fixture->keeper.socket, hidden), 0);
    fake_hang_up(&fixture->keeper);
    RUN_UNTIL(fixture->loop, seen->absent >= 2);
    assert_false(keeper_client_connected(seen->client));
    (void)ask(fixture, KEEPER_CREATE, 3);
    run_for(fixture->loop, 20);
    assert_int_equal(seen->answers, 0);
    assert_int_equal(rename(hidden, fixture->keeper.socket), 0);
    RUN_UNTIL(fixture->loop, seen->answers == 1);
    assert_int_equal(seen->last.status, 0);
    assert_int_equal(fixture->keeper.asked[KEEPER_HELLO], 1);
}

static void on_opened(int fd, void *user)
{
    struct seen *seen = user;
    seen->answers++;
    seen->opened = fd;
}

static uint64_t ask_open(struct fixture *fixture, uint8_t number, const char *path)
{
    struct id id;
    memset(id.bytes, number, sizeof id.bytes);
    return keeper_client_open(fixture->seen.client, id, path, on_opened, &fixture->seen);
}

static void make_box(struct fixture *fixture, uint8_t number)
{
    uint8_t id[16];
    memset(id, number, sizeof id);
    (void)fake_box_make(&fixture->keeper, id);
}

/* The keeper's file comes through, for paths up to the longest. */
static void test_open(void **state)
{
    struct fixture *fixture = *state;
    struct seen *seen = &fixture->seen;
    char longest[MAX_FILE_PATH_BYTES + 1], text[MAX_FILE_PATH_BYTES + 1] = "";
    memset(longest, 'p', MAX_FILE_PATH_BYTES);
    longest[MAX_FILE_PATH_BYTES] = '\0';
    make_box(fixture, 7);
    const char *const paths[] = {"x", "a/b", longest};
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++) {
        (void)ask_open(fixture, 7, paths[i]);
        assert_int_equal(seen->answers, i);
        RUN_UNTIL(fixture->loop, seen->answers == i + 1);
        assert_true(seen->opened >= 0);
        assert_int_equal(pread(seen->opened, text, sizeof text, 0), strlen(paths[i]));
        assert_memory_equal(text, paths[i], strlen(paths[i]));
        close(seen->opened);
    }
    (void)ask_open(fixture, 8, "x");
    RUN_UNTIL(fixture->loop, seen->answers == 4);
    assert_int_equal(seen->opened, -ENOENT);
    (void)ask(fixture, KEEPER_USAGE, 7);
    RUN_UNTIL(fixture->loop, seen->answers == 5);
}

/* Nobody wants the file any more, or nobody asked for it: it is closed. */
static void test_unwanted_files(void **state)
{
    struct fixture *fixture = *state;
    make_box(fixture, 7);
    RUN_UNTIL(fixture->loop, fixture->keeper.fd >= 0);
    int before = open_descriptors();
    keeper_client_forget(fixture->seen.client, ask_open(fixture, 7, "x"));
    RUN_UNTIL(fixture->loop, fixture->keeper.asked[KEEPER_OPEN] == 1);
    struct keeper_message message = {
        .version = KEEPER_PROTOCOL_VERSION, .type = KEEPER_OPEN, .tag = 12345};
    fake_open(&fixture->keeper, message, "y");
    memset(message.id, 7, sizeof message.id);
    fake_open(&fixture->keeper, message, "y");
    uint64_t tag = ask(fixture, KEEPER_CREATE, 1);
    fixture->keeper.silent = true;
    message.type = KEEPER_CREATE;
    message.tag = tag;
    fake_open(&fixture->keeper, message, "y");
    RUN_UNTIL(fixture->loop, fixture->seen.answers == 1);
    assert_int_equal(open_descriptors(), before);
}

/* Opening fails with the keeper, and waits for the next one if it was not asked yet. */
static void test_keeper_dies_over_open(void **state)
{
    struct fixture *fixture = *state;
    struct seen *seen = &fixture->seen;
    make_box(fixture, 7);
    fixture->keeper.silent = true;
    (void)ask_open(fixture, 7, "x");
    RUN_UNTIL(fixture->loop, fixture->keeper.asked[KEEPER_OPEN] == 1);
    fake_hang_up(&fixture->keeper);
    RUN_UNTIL(fixture->loop, seen->answers == 1);
    assert_int_equal(seen->opened, -ECONNRESET);
    fixture->keeper.silent = false;
    (void)ask_open(fixture, 7, "y");
    RUN_UNTIL(fixture->loop, seen->answers == 2);
    assert_true(seen->opened >= 0);
    close(seen->opened);
    assert_int_equal(seen->connected, 1);
}

/* Three callers; the second gets an answer in a language it does not speak, the third none. */
static void answer_three(void *user)
{
    for (unsigned i = 0; i < 3; i++) {
        struct keeper_message message;
        int fd = accept4(*(int *)user, NULL, NULL, SOCK_CLOEXEC);
        child_check(recv(fd, &message, sizeof message, 0) == sizeof message);
        child_check(message.type == KEEPER_HELLO);
        (void)snprintf(message.text, sizeof message.text, "3.2.1");
        message.version += i;
        if (i < 2)
            child_check(send_with_fds(fd, &message, sizeof message, NULL, 0) == 0);
        close(fd);
    }
}

static void test_connect(void **state)
{
    (void)state;
    char folder[32], path[64], version[KEEPER_TEXT_SIZE];
    struct failure why;
    int status = -1;
    make_directory(folder);
    (void)snprintf(path, sizeof path, "%s/s", folder);
    assert_int_equal(keeper_connect(path, version, &why), -ENOENT);
    int listening = unix_listen(path, SOCK_SEQPACKET);
    pid_t child = start_child(answer_three, &listening);
    int fd = keeper_connect(path, version, &why);
    assert_true(fd >= 0);
    assert_string_equal(version, "3.2.1");
    close(fd);
    assert_int_equal(keeper_connect(path, version, &why), -EPROTO);
    assert_int_equal(keeper_connect(path, version, &why), -ECONNRESET);
    close(listening);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(keeper_connect(path, version, &why), -ECONNREFUSED);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forget, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keeper_dies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_asked_while_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_open, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unwanted_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keeper_dies_over_open, set_up, tear_down),
        cmocka_unit_test(test_connect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
