/* Questions to the keeper, and what becomes of them when it dies. */
#include "fake_peers.h"

#include "huskd/keeper_client.h"

struct seen {
    unsigned answers;
    struct keeper_message last;
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

/* Two callers; the second gets an answer in a language it does not speak. */
static void answer_two(void *user)
{
    for (unsigned i = 0; i < 2; i++) {
        struct keeper_message message;
        int fd = accept4(*(int *)user, NULL, NULL, SOCK_CLOEXEC);
        child_check(recv(fd, &message, sizeof message, 0) == sizeof message);
        child_check(message.type == KEEPER_HELLO);
        (void)snprintf(message.text, sizeof message.text, "3.2.1");
        message.version += i;
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
    pid_t child = start_child(answer_two, &listening);
    int fd = keeper_connect(path, version, &why);
    assert_true(fd >= 0);
    assert_string_equal(version, "3.2.1");
    close(fd);
    assert_int_equal(keeper_connect(path, version, &why), -EPROTO);
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
        cmocka_unit_test(test_connect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
