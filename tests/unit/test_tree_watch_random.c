/* What changed_files finds with watches is what it finds without them, whatever happens to the tree. */
#include "watched_tree.h"

#include <sched.h>

static unsigned below(struct fixture *fixture, unsigned limit)
{
    fixture->random = fixture->random * 1103515245 + 12345;
    return (fixture->random >> 16) % limit;
}

/* Few names, so that they meet again and again. */
static void any_folder(struct fixture *fixture, char path[PATH])
{
    path[0] = '\0';
    for (unsigned depth = below(fixture, 5); depth; depth--)
        (void)snprintf(path + strlen(path), PATH - strlen(path), "d%u/", below(fixture, 4));
}

static void any_file(struct fixture *fixture, char path[PATH])
{
    any_folder(fixture, path);
    (void)snprintf(path + strlen(path), PATH - strlen(path), "f%u", below(fixture, 5));
}

/* The one gap: a descriptor whose name is gone, of a file that has another. */
static bool has_lost_its_name(int fd)
{
    char link[32], target[PATH] = "";
    struct stat status;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    (void)!readlink(link, target, sizeof target - 1);
    return fstat(fd, &status) == 0 && status.st_nlink > 0 && strstr(target, " (deleted)");
}

static void use_held(struct fixture *fixture, const char *path)
{
    int *held = &fixture->held[below(fixture, HELD)];
    if (*held < 0) {
        *held = openat(fixture->home, path, O_WRONLY | O_CLOEXEC);
    } else if (below(fixture, 4) == 0) {
        close(*held);
        *held = -1;
    } else if (!has_lost_its_name(*held)) {
        (void)!write(*held, "more", 4);
    }
}

/* A name that is made and removed within one execution changes the stamp of a file under another name: no change of the
 * file, and not to be seen. */
static void remove_something(struct fixture *fixture, unsigned what, const char *a, const char *b)
{
    if (fixture->linked)
        return;
    if (what == 0)
        (void)unlinkat(fixture->home, a, 0);
    else if (what == 1)
        (void)renameat(fixture->home, a, fixture->home, b);
    else
        run_shell(fixture,
                  below(fixture, 2) ? "rm -rf ./$1" : "rm -rf ./$1 && mkdir ./$1 2>/dev/null", b);
}

static void operate(struct fixture *fixture)
{
    char a[PATH], b[PATH], folder_a[PATH], folder_b[PATH];
    any_file(fixture, a);
    any_file(fixture, b);
    any_folder(fixture, folder_a);
    any_folder(fixture, folder_b);
    switch (below(fixture, 19)) {
    case 0:
    case 1:
        return write_file(fixture, a, "created", O_CREAT | O_TRUNC);
    case 2:
        return write_file(fixture, a, "x", 0);
    case 3:
        return write_file(fixture, a, "appended", O_APPEND);
    case 4:
        return write_file(fixture, a, "", O_TRUNC);
    case 5:
        return (void)!fchmodat(fixture->home, a, 0400 + below(fixture, 0200), 0);
    case 6:
        return make_folders(fixture, folder_a);
    case 7:
        if (fixture->may_link && below(fixture, 3) == 0)
            fixture->linked |= linkat(fixture->home, a, fixture->home, b, 0) == 0;
        return;
    case 8:
        return (void)!symlinkat("d0", fixture->home, b);
    case 9:
    case 10:
        return (void)renameat(fixture->home, folder_a, fixture->home, folder_b);
    case 11:
        return (void)renameat2(fixture->home, folder_a, fixture->home, folder_b, RENAME_EXCHANGE);
    case 12:
        return (void)renameat2(fixture->home, a, fixture->home, b, RENAME_EXCHANGE);
    case 13:
        return (void)!fchmodat(fixture->home, *folder_a ? folder_a : ".", 0700, 0);
    case 14:
    case 15:
        return use_held(fixture, a);
    case 16:
        return remove_something(fixture, 0, a, b);
    case 17:
        return remove_something(fixture, 1, a, b);
    default:
        /* The home itself is not removed, and what goes is made again by others. */
        if (*folder_b && below(fixture, 3) == 0)
            remove_something(fixture, 2, a, folder_b);
        return;
    }
}

static void populate(struct fixture *fixture)
{
    for (unsigned i = 0; i < 64; i++) {
        char path[PATH];
        (void)snprintf(path, sizeof path, "d%u/d%u/d%u/", i / 16, i / 4 % 4, i % 4);
        make_folders(fixture, path);
        for (unsigned file = 0; file < 3; file++) {
            any_file(fixture, path);
            write_file(fixture, path, "old", O_CREAT);
        }
    }
}

/* Executions, and things that happen between them. Both ways of finding compare with the same moment: no tick need pass. */
static void live_once(struct fixture *fixture)
{
    populate(fixture);
    for (int round = 0; round < ROUNDS; round++) {
        unsigned between = below(fixture, 3) ? 0 : below(fixture, 10);
        fixture->linked = false;
        for (unsigned i = 0; i < between; i++)
            operate(fixture);
        fixture->since = moment_now();
        fixture->linked = false;
        unsigned during = below(fixture, 4) ? below(fixture, 10) : 0;
        for (unsigned i = 0; i < during; i++)
            operate(fixture);
        assert_true(find(fixture));
        if (!same(fixture))
            fail_msg("in round %d", round);
    }
    run_shell(fixture, "rm -rf $1", "*");
}

static void live(struct fixture *fixture, unsigned seed)
{
    print_message("seed %u\n", seed);
    fixture->random = seed;
    for (int life = 0; life < LIVES; life++) {
        fixture->may_link = life % 2;
        live_once(fixture);
    }
}

static void test_like_the_walk(void **state)
{
    live(*state, 1);
}

static void test_like_the_walk_again(void **state)
{
    live(*state, (unsigned)getpid());
}

static void test_few_folders_watched(void **state)
{
    watch_with(*state, (struct tree_watch_bounds){.least_entries = 0, .most_folders = 20});
    live(*state, 3);
}

/* With watches and without, back and forth. */
static void test_around_the_threshold(void **state)
{
    watch_with(*state, (struct tree_watch_bounds){.least_entries = 150, .most_folders = 8192});
    live(*state, 4);
}

/* --- without what it needs -------------------------------------------------------------------- */

static void write_setting(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    child_check(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

/* In a user namespace, which may lower its own quotas. */
static void live_with_quota(struct fixture *fixture, const char *instances, const char *watches)
{
    child_check(unshare(CLONE_NEWUSER) == 0);
    write_setting("/proc/sys/user/max_inotify_instances", instances);
    write_setting("/proc/sys/user/max_inotify_watches", watches);
    fixture->random = 5;
    populate(fixture);
    for (int round = 0; round < ROUNDS; round++) {
        fixture->since = moment_now();
        for (unsigned i = 0; i < 6; i++)
            operate(fixture);
        child_check(find(fixture));
        child_check(same(fixture));
    }
}

static void live_without_instances(void *user)
{
    live_with_quota(user, "0", "100000");
}

static void live_with_few_watches(void *user)
{
    live_with_quota(user, "1", "7");
}

static void test_no_inotify(void **state)
{
    assert_int_equal(in_child(live_without_instances, *state), 0);
}

static void test_watches_used_up(void **state)
{
    assert_int_equal(in_child(live_with_few_watches, *state), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_like_the_walk),       TEST(test_like_the_walk_again),
        TEST(test_few_folders_watched), TEST(test_around_the_threshold),
        TEST(test_no_inotify),          TEST(test_watches_used_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
