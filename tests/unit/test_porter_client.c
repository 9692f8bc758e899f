/* What a porter says that was taken over: it reads archives of strangers. */
#include "run_loop.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "base/frame.h"
#include "huskd/keeper_client.h"
#include "huskd/porter_client.h"
#include "loop/loop.h"

struct fixture {
    struct loop *loop;
    int keeper; /* the keeper's end */
    struct keeper_client *client;
    struct porter_client *porter;
    int socket; /* the porter's end */
    unsigned begun, ended;
    size_t bytes;
    struct porter_end last;
};

static void on_begun(const struct porter_begin *begin _unused_, void *user)
{
    ((struct fixture *)user)->begun++;
}

static void on_data(const char *data _unused_, size_t length, void *user)
{
    ((struct fixture *)user)->bytes += length;
}

static void on_ended(const struct porter_end *end, void *user)
{
    struct fixture *fixture = user;
    fixture->ended++;
    fixture->last = *end;
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct keeper_events events = {0};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    fixture->loop = loop_new();
    fixture->keeper = pair[0];
    assert_int_equal(set_nonblocking(pair[1], true), 0);
    fixture->client = keeper_client_new(fixture->loop, pair[1], "/nowhere", &events);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    porter_client_free(fixture->porter);
    keeper_client_free(fixture->client);
    close(fixture->keeper);
    close(fixture->socket);
    loop_free(fixture->loop);
    free(fixture);
    return 0;
}

/* As the routes do it: who has no use for data does not listen for it. */
static void start(struct fixture *fixture, enum porter_job job)
{
    bool has_data = job == PORTER_LIST || job == PORTER_PACK;
    struct porter_task task = {.job = job, .folder = ".", .path = "", .archive = -1};
    struct porter_events events = {.begun = has_data ? on_begun : NULL,
                                   .data = has_data ? on_data : NULL,
                                   .ended = on_ended,
                                   .user = fixture};
    struct keeper_request request;
    int pair[2];
    fixture->porter = porter_client_new(fixture->loop, fixture->client, &task, &events);
    assert_true(recv(fixture->keeper, &request, sizeof request, 0) > 0);
    assert_int_equal(request.message.type, KEEPER_PORT);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(
        send_with_fds(fixture->keeper, &request.message, sizeof request.message, &pair[0], 1), 0);
    close(pair[0]);
    fixture->socket = pair[1];
}

static void say(struct fixture *fixture, enum porter_type type, const void *payload, size_t length)
{
    struct frame_header header = {
        .version = FRAME_VERSION, .type = (uint16_t)type, .length = (uint32_t)length};
    assert_int_equal(write_all(fixture->socket, &header, sizeof header), 0);
    assert_int_equal(write_all(fixture->socket, payload, length), 0);
}

static const struct porter_begin begin = {0};
static const struct porter_end good = {.entries = 3};

static void data_of_a_list(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, PORTER_LIST);
    say(fixture, PORTER_BEGIN, &begin, sizeof begin);
    say(fixture, PORTER_DATA, "[]", 2);
    say(fixture, PORTER_END, &good, sizeof good);
    RUN_UNTIL(fixture->loop, fixture->ended);
    assert_int_equal(fixture->begun, 1);
    assert_int_equal(fixture->bytes, 2);
    assert_int_equal(fixture->last.status, 0);
}

static void expect_distrust(struct fixture *fixture)
{
    RUN_UNTIL(fixture->loop, fixture->ended);
    assert_int_equal(fixture->last.status, -ECONNRESET);
    assert_int_equal(fixture->begun, 0);
    assert_int_equal(fixture->bytes, 0);
}

static void data_of_a_job_without_any(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, PORTER_UNPACK);
    say(fixture, PORTER_DATA, "x", 1);
    expect_distrust(fixture);
}

static void beginning_of_a_job_without_data(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, PORTER_REMOVE);
    say(fixture, PORTER_BEGIN, &begin, sizeof begin);
    expect_distrust(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(data_of_a_list, set_up, tear_down),
        cmocka_unit_test_setup_teardown(data_of_a_job_without_any, set_up, tear_down),
        cmocka_unit_test_setup_teardown(beginning_of_a_job_without_data, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
