/* Clients that go away. */
#include "run_loop.h"
#include "skip_time.h"

#include <sys/socket.h>

#include "http/peer.h"
#include "husk/limits.h"

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
    struct peers *peers = peers_new(loop, 1000);
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

struct crowd {
    struct loop *loop;
    struct peers *peers;
    struct peer *all[16];
    int ends[16][2];
};

static void join(struct crowd *crowd, int i)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, crowd->ends[i]), 0);
    crowd->all[i] = peer_add(crowd->peers, crowd->ends[i][0]);
}

static bool was_dropped(const struct crowd *crowd, int i)
{
    char byte;
    return recv(crowd->ends[i][1], &byte, 1, MSG_DONTWAIT) == 0;
}

static void part(struct crowd *crowd, int i)
{
    peer_remove(crowd->all[i]);
    close(crowd->ends[i][0]);
    close(crowd->ends[i][1]);
}

/* The places go to those who want something: the one that has wanted nothing for longest makes room. */
static void test_making_room(void **state)
{
    (void)state;
    struct crowd crowd = {.loop = loop_new()};
    crowd.peers = peers_new(crowd.loop, 16); /* of which one is spare */
    for (int i = 0; i < 15; i++)
        join(&crowd, i);
    peer_hold(crowd.all[0], true);
    peer_hold(crowd.all[1], true);
    peer_hold(crowd.all[2], true);
    peer_hold(crowd.all[2], false); /* served a moment ago: newer than the others */
    for (int i = 0; i < 15; i++)
        assert_false(was_dropped(&crowd, i));
    join(&crowd, 15);
    for (int i = 0; i < 16; i++)
        assert_int_equal(was_dropped(&crowd, i), i == 3);
    /* It has not left yet: for the next one it is another that goes. */
    part(&crowd, 15);
    join(&crowd, 15);
    for (int i = 0; i < 16; i++)
        assert_int_equal(was_dropped(&crowd, i), i == 3 || i == 4);
    /* Where all want something nobody is sent away. */
    for (int i = 0; i < 16; i++)
        peer_hold(crowd.all[i], true);
    part(&crowd, 15);
    join(&crowd, 15);
    for (int i = 0; i < 16; i++)
        assert_int_equal(was_dropped(&crowd, i), i == 3 || i == 4);
    for (int i = 0; i < 16; i++)
        part(&crowd, i);
    peers_free(crowd.peers);
    loop_free(crowd.loop);
}

/* However busily it sends: its time is over when it is over. */
static void test_time_is_limited(void **state)
{
    (void)state;
    struct crowd crowd = {.loop = loop_new()};
    crowd.peers = peers_new(crowd.loop, 16);
    join(&crowd, 0);
    join(&crowd, 1);
    join(&crowd, 2);
    peer_allow(crowd.all[1], 0);
    peer_allow(crowd.all[2], RECEIVE_SECONDS);
    skip_time((CONNECTION_IDLE_SECONDS + 6) * 1000);
    assert_int_equal(write(crowd.ends[0][1], "x", 1), 1);
    RUN_UNTIL(crowd.loop, was_dropped(&crowd, 0));
    assert_false(was_dropped(&crowd, 1) || was_dropped(&crowd, 2));
    skip_time(RECEIVE_SECONDS * 1000);
    RUN_UNTIL(crowd.loop, was_dropped(&crowd, 2));
    assert_false(was_dropped(&crowd, 1));
    for (int i = 0; i < 3; i++)
        part(&crowd, i);
    peers_free(crowd.peers);
    loop_free(crowd.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_client_leaves),
                                       cmocka_unit_test(test_making_room),
                                       cmocka_unit_test(test_time_is_limited)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
