/* Sources, signals and running. Timers: test_loop_timers.c. */
#include "unit.h"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/fdio.h"
#include "loop/loop.h"

enum {
    WATCHES = 4,
    STOPPED = 42,
    HANGING_MS = 20000
};

/* One end of a pipe that the loop watches, and what its callback shall do. */
struct watch {
    struct fixture *fixture;
    int reading, writing;
    struct source *source;
    int calls;
    uint32_t events;
};

struct fixture {
    struct loop *loop;
    struct watch watches[WATCHES];
    int calls; /* of all watches */
    char order[32];
};

static void hangs(struct timer *timer _unused_, void *user)
{
    struct fixture *fixture = user;
    loop_stop(fixture->loop, -ETIMEDOUT);
}

static int open_loop(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.loop = loop_new()};
    if (!fixture.loop)
        return -1;
    for (int i = 0; i < WATCHES; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
            return -1;
        fixture.watches[i] =
            (struct watch){.fixture = &fixture, .reading = ends[0], .writing = ends[1]};
    }
    /* A test that fails must not wait for ever. */
    timer_arm(timer_add(fixture.loop, hangs, &fixture), HANGING_MS);
    *state = &fixture;
    return 0;
}

static int close_loop(void **state)
{
    struct fixture *fixture = *state;
    fixture->loop = loop_free(fixture->loop);
    for (int i = 0; i < WATCHES; i++) {
        close_fd(fixture->watches[i].reading);
        close_fd(fixture->watches[i].writing);
    }
    return 0;
}

static void watch(struct watch *one, source_callback callback)
{
    one->source = source_add(one->fixture->loop, one->reading, EPOLLIN, callback, one);
    assert_non_null(one->source);
}

static void make_ready(struct watch *one)
{
    assert_int_equal(write_all(one->writing, "x", 1), 0);
}

/* Stops the loop when the round is over. */
static void stop_after_round(struct timer *timer _unused_, void *user)
{
    loop_stop(user, STOPPED);
}

static void run_one_round(struct fixture *fixture)
{
    struct timer *timer = timer_add(fixture->loop, stop_after_round, fixture->loop);
    timer_arm(timer, 0);
    assert_int_equal(loop_run(fixture->loop), STOPPED);
    timer_remove(timer);
}

static void note(struct fixture *fixture, char what)
{
    size_t length = strlen(fixture->order);
    if (length + 1 < sizeof fixture->order)
        fixture->order[length] = what;
}

/* --- sources --------------------------------------------------------------------------------- */

static void take_byte(struct source *source, uint32_t events, void *user)
{
    struct watch *one = user;
    char byte;
    assert_ptr_equal(source, one->source);
    (void)read_some(one->reading, &byte, 1);
    one->calls++;
    one->events = events;
}

static void a_ready_descriptor_is_called_with_its_events(void **state)
{
    struct fixture *fixture = *state;
    watch(&fixture->watches[0], take_byte);
    watch(&fixture->watches[1], take_byte);
    make_ready(&fixture->watches[0]);
    run_one_round(fixture);
    assert_int_equal(fixture->watches[0].calls, 1);
    assert_int_equal(fixture->watches[0].events, EPOLLIN);
    assert_int_equal(fixture->watches[1].calls, 0);
    run_one_round(fixture);
    assert_int_equal(fixture->watches[0].calls, 1);
    fixture->watches[0].writing = close_fd(fixture->watches[0].writing);
    run_one_round(fixture);
    assert_int_equal(fixture->watches[0].calls, 2);
    assert_int_equal(fixture->watches[0].events, EPOLLHUP);
}

static void leave_byte(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct watch *one = user;
    one->calls++;
}

static void what_is_not_taken_is_reported_again(void **state)
{
    struct fixture *fixture = *state;
    watch(&fixture->watches[0], leave_byte);
    make_ready(&fixture->watches[0]);
    run_one_round(fixture);
    run_one_round(fixture);
    assert_int_equal(fixture->watches[0].calls, 2);
}

static void events_can_be_changed(void **state)
{
    struct fixture *fixture = *state;
    struct watch *one = &fixture->watches[0];
    one->source = source_add(fixture->loop, one->writing, EPOLLIN, leave_byte, one);
    assert_non_null(one->source);
    run_one_round(fixture);
    assert_int_equal(one->calls, 0);
    assert_int_equal(source_set_events(one->source, EPOLLOUT), 0);
    run_one_round(fixture);
    assert_int_equal(one->calls, 1);
    assert_int_equal(source_set_events(one->source, 0), 0);
    run_one_round(fixture);
    assert_int_equal(one->calls, 1);
}

static void what_cannot_be_watched_gives_null(void **state)
{
    struct fixture *fixture = *state;
    int file = file_with("x", 1);
    assert_null(source_add(fixture->loop, file, EPOLLIN, leave_byte, NULL));
    assert_int_equal(errno, EPERM);
    close(file);
    assert_null(source_add(fixture->loop, -1, EPOLLIN, leave_byte, NULL));
    assert_int_equal(errno, EBADF);
    watch(&fixture->watches[0], leave_byte);
    assert_null(source_add(fixture->loop, fixture->watches[0].reading, EPOLLIN, leave_byte, NULL));
    assert_int_equal(errno, EEXIST);
}

static void a_removed_source_is_not_called(void **state)
{
    struct fixture *fixture = *state;
    watch(&fixture->watches[0], take_byte);
    make_ready(&fixture->watches[0]);
    assert_null(source_remove(fixture->watches[0].source));
    run_one_round(fixture);
    assert_int_equal(fixture->watches[0].calls, 0);
    assert_null(source_remove(NULL));
    /* its descriptor is still open and can be watched again */
    watch(&fixture->watches[0], take_byte);
    run_one_round(fixture);
    assert_int_equal(fixture->watches[0].calls, 1);
}

static void remove_all(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct watch *one = user;
    for (int i = 0; i < WATCHES; i++) {
        struct watch *each = &one->fixture->watches[i];
        each->source = source_remove(each->source);
    }
    one->fixture->calls++;
}

static void sources_of_the_same_batch_can_be_removed(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < WATCHES; i++) {
        watch(&fixture->watches[i], remove_all);
        make_ready(&fixture->watches[i]);
    }
    run_one_round(fixture);
    run_one_round(fixture);
    assert_int_equal(fixture->calls, 1);
}

static void never(struct source *source _unused_, uint32_t events _unused_, void *user _unused_)
{
    fail_msg("nothing happened on this descriptor");
}

/* Replaces every other watch by a descriptor with the same number, on which nothing happens. */
static void replace_others(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct watch *one = user;
    one->fixture->calls++;
    one->source = source_remove(one->source);
    for (int i = 0; i < WATCHES; i++) {
        struct watch *each = &one->fixture->watches[i];
        if (each == one)
            continue;
        each->source = source_remove(each->source);
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        assert_int_equal(dup2(ends[0], each->reading), each->reading);
        assert_int_equal(dup2(ends[1], each->writing), each->writing);
        close(ends[0]);
        close(ends[1]);
        watch(each, never);
    }
}

static void events_of_an_old_descriptor_do_not_reach_the_new_one(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < WATCHES; i++) {
        watch(&fixture->watches[i], replace_others);
        make_ready(&fixture->watches[i]);
    }
    run_one_round(fixture);
    run_one_round(fixture);
    assert_int_equal(fixture->calls, 1);
}

static void add_another(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct watch *one = user;
    one->source = source_remove(one->source);
    watch(&one->fixture->watches[1], take_byte);
}

static void a_callback_can_add_sources(void **state)
{
    struct fixture *fixture = *state;
    watch(&fixture->watches[0], add_another);
    make_ready(&fixture->watches[0]);
    make_ready(&fixture->watches[1]);
    run_one_round(fixture);
    run_one_round(fixture);
    assert_int_equal(fixture->watches[1].calls, 1);
}

static void more_sources_than_fit_in_a_batch_are_all_called(void **state)
{
    enum {
        MANY = 200
    };
    struct fixture *fixture = *state;
    static struct watch many[MANY];
    for (int i = 0; i < MANY; i++) {
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        many[i] = (struct watch){.fixture = fixture, .reading = ends[0], .writing = ends[1]};
        watch(&many[i], take_byte);
        make_ready(&many[i]);
    }
    for (int rounds = 0; rounds < 8; rounds++)
        run_one_round(fixture);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(many[i].calls, 1);
        source_remove(many[i].source);
        close(many[i].reading);
        close(many[i].writing);
    }
}

static void the_end_of_the_loop_frees_sources_but_closes_nothing(void **state)
{
    struct fixture *fixture = *state;
    int before = open_descriptors();
    struct loop *loop = loop_new();
    assert_non_null(loop);
    struct source *first = source_add(loop, fixture->watches[0].reading, EPOLLIN, leave_byte, NULL);
    assert_non_null(source_add(loop, fixture->watches[1].reading, EPOLLIN, leave_byte, NULL));
    assert_non_null(source_add(loop, fixture->watches[2].reading, EPOLLIN, leave_byte, NULL));
    source_remove(first);
    timer_arm(timer_add(loop, hangs, NULL), 1);
    (void)timer_add(loop, hangs, NULL);
    assert_null(loop_free(loop));
    assert_int_equal(open_descriptors(), before);
    assert_null(loop_free(NULL));
}

/* --- stopping -------------------------------------------------------------------------------- */

static void stop_in_callback(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct watch *one = user;
    char byte;
    (void)read_some(one->reading, &byte, 1);
    one->fixture->calls++;
    loop_stop(one->fixture->loop, STOPPED + 1);
}

static void stopping_ends_the_round_and_loses_nothing(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < WATCHES; i++) {
        watch(&fixture->watches[i], stop_in_callback);
        make_ready(&fixture->watches[i]);
    }
    for (int i = 0; i < WATCHES; i++) {
        assert_int_equal(loop_run(fixture->loop), STOPPED + 1);
        assert_int_equal(fixture->calls, i + 1);
    }
}

static void a_loop_stopped_before_it_runs_does_not_run(void **state)
{
    struct fixture *fixture = *state;
    watch(&fixture->watches[0], take_byte);
    make_ready(&fixture->watches[0]);
    loop_stop(fixture->loop, 7);
    assert_int_equal(loop_run(fixture->loop), 7);
    assert_int_equal(fixture->watches[0].calls, 0);
    run_one_round(fixture);
    assert_int_equal(fixture->watches[0].calls, 1);
}

/* --- signals --------------------------------------------------------------------------------- */

static struct {
    int counts[64];
    uint32_t sender;
} signals_seen;

static void count_signal(const struct signalfd_siginfo *info, void *user _unused_)
{
    signals_seen.counts[info->ssi_signo]++;
    signals_seen.sender = info->ssi_pid;
}

static void send_signal(void *user _unused_)
{
    child_check(kill(getppid(), SIGUSR2) == 0);
}

static void signals_come_as_events(void **state)
{
    struct fixture *fixture = *state;
    static const int wanted[] = {SIGUSR1, SIGUSR2, 0};
    memset(&signals_seen, 0, sizeof signals_seen);
    int before = open_descriptors();
    assert_int_equal(loop_signals(fixture->loop, wanted, count_signal, NULL), 0);
    sigset_t blocked;
    assert_int_equal(sigprocmask(SIG_SETMASK, NULL, &blocked), 0);
    assert_true(sigismember(&blocked, SIGUSR1) && sigismember(&blocked, SIGUSR2));
    assert_false(sigismember(&blocked, SIGTERM));
    run_one_round(fixture);
    assert_int_equal(signals_seen.counts[SIGUSR1], 0);
    assert_int_equal(raise(SIGUSR1), 0);
    pid_t child = start_child(send_signal, NULL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    run_one_round(fixture);
    assert_int_equal(signals_seen.counts[SIGUSR1], 1);
    assert_int_equal(signals_seen.counts[SIGUSR2], 1);
    assert_int_equal(signals_seen.sender, child);
    run_one_round(fixture);
    assert_int_equal(signals_seen.counts[SIGUSR1], 1);
    fixture->loop = loop_free(fixture->loop);
    assert_int_equal(open_descriptors(), before - 1);
    sigemptyset(&blocked);
    assert_int_equal(sigprocmask(SIG_SETMASK, &blocked, NULL), 0);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int number _unused_)
{
    alarms++;
}

static void stop_after_alarms(struct timer *timer, void *user)
{
    if (alarms >= 3)
        loop_stop(user, STOPPED);
    else
        timer_arm(timer, 20);
}

static void signals_that_interrupt_the_wait_do_not_end_the_loop(void **state)
{
    struct fixture *fixture = *state;
    alarms = 0;
    struct sigaction action = {.sa_handler = on_alarm};
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    struct itimerval interval = {{0, 3000}, {0, 3000}};
    assert_int_equal(setitimer(ITIMER_REAL, &interval, NULL), 0);
    timer_arm(timer_add(fixture->loop, stop_after_alarms, fixture->loop), 20);
    int r = loop_run(fixture->loop);
    assert_int_equal(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL), 0);
    (void)signal(SIGALRM, SIG_DFL);
    assert_int_equal(r, STOPPED);
}

/* --- before each wait ------------------------------------------------------------------------ */

static void note_source(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct watch *one = user;
    char byte;
    (void)read_some(one->reading, &byte, 1);
    note(one->fixture, 's');
}

static void note_timer(struct timer *timer _unused_, void *user)
{
    note(user, 't');
}

static void note_wait(void *user)
{
    struct fixture *fixture = user;
    note(fixture, 'w');
    if (strlen(fixture->order) > 4)
        loop_stop(fixture->loop, STOPPED);
}

static void before_each_wait_comes_after_all_callbacks_of_a_round(void **state)
{
    struct fixture *fixture = *state;
    loop_before_wait(fixture->loop, note_wait, fixture);
    watch(&fixture->watches[0], note_source);
    watch(&fixture->watches[1], note_source);
    make_ready(&fixture->watches[0]);
    make_ready(&fixture->watches[1]);
    timer_arm(timer_add(fixture->loop, note_timer, fixture), 0);
    uint64_t begin = now_ms();
    assert_int_equal(loop_run(fixture->loop), STOPPED);
    assert_string_equal(fixture->order, "wsstw");
    /* a stop just before the wait is not slept over */
    assert_true(now_ms() - begin < HANGING_MS / 2);
}

static void wake_three_times(void *user)
{
    struct fixture *fixture = user;
    if (++fixture->calls > 3)
        loop_stop(fixture->loop, STOPPED);
    else
        loop_wake_in(fixture->loop, 5);
}

static void wake_in_bounds_the_next_wait(void **state)
{
    struct fixture *fixture = *state;
    loop_before_wait(fixture->loop, wake_three_times, fixture);
    uint64_t begin = now_ms();
    assert_int_equal(loop_run(fixture->loop), STOPPED);
    assert_int_equal(fixture->calls, 4);
    assert_true(now_ms() - begin >= 3 * 5);
}

static void wake_once(void *user)
{
    struct fixture *fixture = user;
    if (fixture->calls++ == 0) {
        loop_wake_in(fixture->loop, HANGING_MS);
        loop_wake_in(fixture->loop, 1);
        loop_wake_in(fixture->loop, HANGING_MS);
    }
}

static void only_the_next_wait_and_the_shortest_wish_counts(void **state)
{
    struct fixture *fixture = *state;
    loop_before_wait(fixture->loop, wake_once, fixture);
    struct timer *timer = timer_add(fixture->loop, stop_after_round, fixture->loop);
    timer_arm(timer, 50);
    assert_int_equal(loop_run(fixture->loop), STOPPED);
    /* one wait ended by the wish, then one by the timer: a wish that stayed would make it spin */
    assert_in_range(fixture->calls, 2, 4);
}

static void a_wish_for_later_does_not_delay_a_timer(void **state)
{
    struct fixture *fixture = *state;
    loop_wake_in(fixture->loop, HANGING_MS);
    struct timer *timer = timer_add(fixture->loop, stop_after_round, fixture->loop);
    timer_arm(timer, 1);
    uint64_t begin = now_ms();
    assert_int_equal(loop_run(fixture->loop), STOPPED);
    assert_true(now_ms() - begin < HANGING_MS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_loop, close_loop)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(a_ready_descriptor_is_called_with_its_events),
        TEST(what_is_not_taken_is_reported_again),
        TEST(events_can_be_changed),
        TEST(what_cannot_be_watched_gives_null),
        TEST(a_removed_source_is_not_called),
        TEST(sources_of_the_same_batch_can_be_removed),
        TEST(events_of_an_old_descriptor_do_not_reach_the_new_one),
        TEST(a_callback_can_add_sources),
        TEST(more_sources_than_fit_in_a_batch_are_all_called),
        TEST(the_end_of_the_loop_frees_sources_but_closes_nothing),
        TEST(stopping_ends_the_round_and_loses_nothing),
        TEST(a_loop_stopped_before_it_runs_does_not_run),
        TEST(signals_come_as_events),
        TEST(signals_that_interrupt_the_wait_do_not_end_the_loop),
        TEST(before_each_wait_comes_after_all_callbacks_of_a_round),
        TEST(wake_in_bounds_the_next_wait),
        TEST(only_the_next_wait_and_the_shortest_wish_counts),
        TEST(a_wish_for_later_does_not_delay_a_timer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
