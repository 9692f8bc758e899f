/* Clients that go away. */
#include "run_loop.h"

#include <sys/socket.h>

#include "http/peer.h"

static unsigned times_left;

static void on_left(void *user)
{
    assert_ptr_equal(user, &times_left);
    times_left++;
}

static void test_client_leaves(void **state)
{
    (void)state;
    int ends[2][2];
    struct loop *loop = loop_new();
    struct peers *peers = peers_new(loop);
    struct peer *watched, *silent;
    for (int i = 0; i < 2; i++)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[i]), 0);
    watched = peer_add(peers, ends[0][0]);
    silent = peer_add(peers, ends[1][0]);
    peer_watch(watched, on_left, &times_left);
    assert_int_equal(write(ends[0][1], "x", 1), 1);
    run_for(loop, 20);
    assert_false(peer_left(watched) || peer_left(silent));
    close(ends[0][1]);
    RUN_UNTIL(loop, peer_left(watched));
    assert_int_equal(times_left, 1);
    assert_false(peer_left(silent));
    /* Half an end is an end; what was sent before it can still be read. */
    assert_int_equal(shutdown(ends[1][1], SHUT_WR), 0);
    RUN_UNTIL(loop, peer_left(silent));
    run_for(loop, 300);
    char byte;
    assert_int_equal(read(ends[0][0], &byte, 1), 1);
    assert_int_equal(read(ends[0][0], &byte, 1), 0);
    assert_int_equal(write(ends[1][0], "y", 1), 1);
    assert_int_equal(read(ends[1][1], &byte, 1), 1);
    assert_int_equal(times_left, 1);
    peer_remove(watched);
    peer_remove(silent);
    run_for(loop, 300);
    peers_free(peers);
    loop_free(loop);
    close(ends[0][0]);
    close(ends[1][0]);
    close(ends[1][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_client_leaves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
