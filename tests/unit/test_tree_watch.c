/* What changed_files finds with watches is what it finds without them, whatever happens to the tree. */
#include "unit.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "husk/limits.h"
#include "shim/changed_files.h"
#include "shim/tree_watch.h"

enum {
    HELD = 8,   /* descriptors that stay open from one execution to the next */
    PATH = 256, /* bytes of the longest path here */
    LIVES = 8,  /* of a tree, which gets poorer with time */
    ROUNDS = 150
};

struct fixture {
    char path[40];
    int home;
    struct tree_watch *watch;
    struct moment since;
    struct changed_files found, reference;
    unsigned random;
    bool may_link; /* what has several names is looked at more often */
    bool linked;   /* in this execution */
    int held[HELD];
};

static const struct tree_watch_bounds every_tree = {.least_entries = 0, .most_folders = 8192};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    (void)snprintf(fixture->path, sizeof fixture->path, "/dev/shm/husk-unit-XXXXXX");
    assert_non_null(mkdtemp(fixture->path));
    fixture->home = open(fixture->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fixture->home >= 0);
    fixture->watch = tree_watch_new(every_tree);
    memset(fixture->held, -1, sizeof fixture->held);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char command[64];
    changed_files_free(&fixture->found);
    changed_files_free(&fixture->reference);
    tree_watch_free(fixture->watch);
    for (size_t i = 0; i < HELD; i++)
        close_descriptor(&fixture->held[i]);
    close(fixture->home);
    (void)snprintf(command, sizeof command, "rm -rf %s", fixture->path);
    assert_int_equal(system(command), 0);
    free(fixture);
    return 0;
}

static void watch_with(struct fixture *fixture, struct tree_watch_bounds bounds)
{
    tree_watch_free(fixture->watch);
    fixture->watch = tree_watch_new(bounds);
}

/* Kernels before 6.13 stamp with the tick: let it pass, so that what comes is later than what was. */
static void begin(struct fixture *fixture)
{
    struct timespec start, now;
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &start);
    do {
        (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    } while (now.tv_sec == start.tv_sec && now.tv_nsec == start.tv_nsec);
    fixture->since = moment_now();
    fixture->linked = false;
}

static bool find(struct fixture *fixture)
{
    changed_files_free(&fixture->found);
    changed_files_free(&fixture->reference);
    return changed_files_find(fixture->home, fixture->watch, &fixture->since, &fixture->found) ==
               0 &&
           changed_files_find(fixture->home, NULL, &fixture->since, &fixture->reference) == 0;
}

static bool same_file(const struct changed_file *a, const struct changed_file *b)
{
    return !strcmp(a->path, b->path) && a->size == b->size && a->created == b->created;
}

static bool same(const struct fixture *fixture)
{
    const struct changed_files *found = &fixture->found, *reference = &fixture->reference;
    size_t i = 0;
    while (i < found->count && i < reference->count &&
           same_file(&found->files[i], &reference->files[i]))
        i++;
    if (i == found->count && i == reference->count && found->incomplete == reference->incomplete)
        return true;
    (void)fprintf(stderr, "found %zu (%d), should be %zu (%d); first difference: %s, %s\n",
                  found->count, found->incomplete, reference->count, reference->incomplete,
                  i < found->count ? found->files[i].path : "-",
                  i < reference->count ? reference->files[i].path : "-");
    return false;
}

static void expect_count(struct fixture *fixture, size_t count)
{
    assert_true(find(fixture));
    assert_true(same(fixture));
    assert_int_equal(fixture->found.count, count);
}

static void write_file(const struct fixture *fixture, const char *name, const char *text, int flags)
{
    int fd = openat(fixture->home, name, O_WRONLY | O_CLOEXEC | flags, 0600);
    if (fd < 0)
        return;
    (void)!write(fd, text, strlen(text));
    close(fd);
}

static void create(const struct fixture *fixture, const char *name)
{
    write_file(fixture, name, "new", O_CREAT);
    assert_int_equal(faccessat(fixture->home, name, F_OK, 0), 0);
}

/* --- random operations ------------------------------------------------------------------------ */

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

static void make_folders(const struct fixture *fixture, const char *path)
{
    char part[PATH];
    for (const char *end = path; (end = strchr(end, '/')); end++) {
        (void)snprintf(part, sizeof part, "%.*s", (int)(end - path), path);
        (void)mkdirat(fixture->home, part, 0700);
    }
}

/* In the tree, with `path` as $1. */
static void run_shell(const struct fixture *fixture, const char *script, const char *path)
{
    char text[PATH + 128];
    (void)snprintf(text, sizeof text, "cd %s && set -- '%s' && %s", fixture->path, path, script);
    (void)!system(text);
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

/* What happens to one name of a file is seen under all of them, whichever folder has the event. */
static void test_hard_links(void **state)
{
    static const size_t folders[] = {8192, 3, 1};
    struct fixture *fixture = *state;
    int home = fixture->home;
    for (size_t i = 0; i < ARRAY_LENGTH(folders); i++) {
        watch_with(fixture, (struct tree_watch_bounds){.most_folders = folders[i]});
        make_folders(fixture, "a/b/");
        make_folders(fixture, "c/");
        create(fixture, "a/first");
        begin(fixture);
        for (int settle = 0; settle < 3; settle++)
            expect_count(fixture, 0);
        assert_int_equal(linkat(home, "a/first", home, "a/b/second", 0), 0);
        expect_count(fixture, 2);
        /* Between two executions: nothing is told, but it must be known. */
        assert_int_equal(linkat(home, "a/b/second", home, "c/third", 0), 0);
        for (int settle = 0; settle < 3; settle++) {
            begin(fixture);
            expect_count(fixture, 0);
        }
        static const char *const names[] = {"a/first", "a/b/second", "c/third"};
        for (size_t name = 0; name < ARRAY_LENGTH(names); name++) {
            begin(fixture);
            write_file(fixture, names[name], "x", 0);
            expect_count(fixture, 3);
            begin(fixture);
            expect_count(fixture, 0);
        }
        begin(fixture);
        assert_int_equal(unlinkat(home, "a/first", 0), 0);
        expect_count(fixture, 2);
        begin(fixture);
        create(fixture, "other");
        assert_int_equal(renameat(home, "other", home, "c/third"), 0);
        expect_count(fixture, 2); /* the new one, and the old one under its last name */
        begin(fixture);
        write_file(fixture, "a/b/second", "x", 0);
        expect_count(fixture, 1);
        run_shell(fixture, "rm -rf $1", "a c");
    }
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

/* As a user without root's rights, which is what the shim is. */
static void live_unreadable(void *user)
{
    struct fixture *fixture = user;
    child_check(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
    make_folders(fixture, "shut/inner/");
    make_folders(fixture, "open/");
    for (int round = 0; round < 12; round++) {
        static const mode_t modes[] = {0700, 0, 0400, 0100};
        begin(fixture);
        child_check(fchmodat(fixture->home, "shut", 0700, 0) == 0);
        write_file(fixture, "shut/inner/file", "x", O_CREAT);
        child_check(fchmodat(fixture->home, "shut", modes[round / 3], 0) == 0);
        child_check(find(fixture) && same(fixture));
        begin(fixture);
        child_check(find(fixture) && same(fixture));
    }
}

static void test_unreadable(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(fchown(fixture->home, 65534, 65534), 0);
    assert_int_equal(in_child(live_unreadable, fixture), 0);
}

/* More events than a queue holds, and the one that matters is among those that were lost. */
static void test_overflow(void **state)
{
    enum {
        FOLDERS = 9000 /* two events for each, 16384 fit */
    };
    struct fixture *fixture = *state;
    char path[PATH];
    watch_with(fixture, (struct tree_watch_bounds){.least_entries = 0, .most_folders = 20000});
    for (int i = 0; i < FOLDERS; i++) {
        (void)snprintf(path, sizeof path, "d%d", i);
        assert_int_equal(mkdirat(fixture->home, path, 0700), 0);
    }
    begin(fixture);
    expect_count(fixture, 0);
    expect_count(fixture, 0);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < FOLDERS; i++) {
            (void)snprintf(path, sizeof path, "d%d/f%d", i, round);
            create(fixture, path);
        }
        begin(fixture);
        write_file(fixture, path, "again", 0);
        expect_count(fixture, 1);
    }
    begin(fixture);
    expect_count(fixture, 0);
}

/* --- bounds ----------------------------------------------------------------------------------- */

static void create_many(struct fixture *fixture, const char *folder, int count)
{
    char path[PATH];
    make_folders(fixture, folder);
    for (int i = 0; i < count; i++) {
        (void)snprintf(path, sizeof path, "%sfile%d", folder, i);
        create(fixture, path);
    }
}

/* The walk ended before it had seen everything: the rest is looked at later. */
static void test_more_than_is_told(void **state)
{
    struct fixture *fixture = *state;
    create_many(fixture, "old/", 10);
    for (int round = 0; round < 4; round++) {
        begin(fixture);
        create_many(fixture, "a/", MAX_CHANGED_FILES / 2 + 10);
        create_many(fixture, "b/c/", MAX_CHANGED_FILES / 2 + 10);
        assert_true(find(fixture));
        assert_int_equal(fixture->found.count, MAX_CHANGED_FILES);
        assert_true(fixture->found.incomplete);
        for (int i = 0; i < round; i++) {
            begin(fixture);
            expect_count(fixture, 0);
        }
        begin(fixture);
        write_file(fixture, "b/c/file7", "x", 0);
        write_file(fixture, "a/file7", "x", 0);
        expect_count(fixture, 2);
        run_shell(fixture, "rm -rf $1", "a b");
    }
    /* In one folder: what was made first is listed last. */
    begin(fixture);
    create_many(fixture, "late/", 3);
    create_many(fixture, "", MAX_CHANGED_FILES + 10);
    assert_true(find(fixture));
    assert_int_equal(fixture->found.count, MAX_CHANGED_FILES);
    begin(fixture);
    write_file(fixture, "late/file1", "x", 0);
    expect_count(fixture, 1);
}

/* Too deep, too long, not UTF-8: that there may be more is said every time. */
static void test_incomplete_stays_so(void **state)
{
    struct fixture *fixture = *state;
    char deep[2 * (MAX_WALKED_DEPTH + 2) + 1] = "";
    for (int i = 0; i < MAX_WALKED_DEPTH + 2; i++)
        memcpy(deep + strlen(deep), "d/", 3);
    create(fixture, "file");
    make_folders(fixture, deep);
    for (int round = 0; round < 4; round++) {
        begin(fixture);
        write_file(fixture, "file", "x", 0);
        expect_count(fixture, 1);
        assert_true(fixture->found.incomplete);
    }
    run_shell(fixture, "rm -rf $1", "d");
    for (int round = 0; round < 4; round++) {
        begin(fixture);
        if (round == 1)
            create_many(fixture, "bad\xff/", 2);
        expect_count(fixture, 0);
        assert_int_equal(fixture->found.incomplete, round > 0);
    }
}

static void test_small_trees_are_not_watched(void **state)
{
    struct fixture *fixture = *state;
    watch_with(fixture, (struct tree_watch_bounds){.least_entries = 100, .most_folders = 8192});
    int before = open_descriptors();
    create_many(fixture, "a/", 60);
    for (int i = 0; i < 3; i++) {
        begin(fixture);
        expect_count(fixture, 0);
        assert_int_equal(open_descriptors(), before);
    }
    create_many(fixture, "b/", 60);
    for (int i = 0; i < 3; i++) {
        begin(fixture);
        expect_count(fixture, 0);
        assert_int_equal(open_descriptors(), before + (i > 0));
    }
    /* Not at the first file less, but when it is really small. */
    run_shell(fixture, "rm $1", "b/file1* b/file2*");
    begin(fixture);
    expect_count(fixture, 0);
    assert_int_equal(open_descriptors(), before + 1);
    run_shell(fixture, "rm -r $1", "a");
    begin(fixture);
    expect_count(fixture, 0);
    assert_int_equal(open_descriptors(), before);
}

/* --- what fires no watch ---------------------------------------------------------------------- */

static char *map_file(const struct fixture *fixture, const char *path)
{
    int fd = openat(fixture->home, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 16 * 4096), 0);
    char *memory = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(memory != MAP_FAILED);
    close(fd);
    return memory;
}

/* Found where something happened not long ago; missed where nothing did. The latter also shows that folders are skipped. */
static void test_mappings(void **state)
{
    struct fixture *fixture = *state;
    watch_with(fixture, (struct tree_watch_bounds){.least_entries = 20, .most_folders = 8192});
    create_many(fixture, "other/", 50);
    char *memory = map_file(fixture, "mapped");
    for (int page = 0; page < 8; page++) {
        begin(fixture);
        memory[page * 4096] = 'x';
        expect_count(fixture, 1);
    }
    begin(fixture);
    create_many(fixture, "elsewhere/", 19);
    assert_true(find(fixture));
    begin(fixture);
    memory[8 * 4096] = 'x';
    assert_true(find(fixture));
    assert_int_equal(fixture->reference.count, 1);
    assert_int_equal(fixture->found.count, 0);
    assert_int_equal(munmap(memory, 16 * 4096), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_like_the_walk),
        TEST(test_like_the_walk_again),
        TEST(test_few_folders_watched),
        TEST(test_around_the_threshold),
        TEST(test_hard_links),
        TEST(test_no_inotify),
        TEST(test_watches_used_up),
        TEST(test_unreadable),
        TEST(test_overflow),
        TEST(test_more_than_is_told),
        TEST(test_incomplete_stays_so),
        TEST(test_small_trees_are_not_watched),
        TEST(test_mappings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
