/* Folders that are skipped, and those that must not be: one case after the other. */
#include "watched_tree.h"

#include <sys/mman.h>

#include "husk/limits.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hard_links),
        TEST(test_unreadable),
        TEST(test_overflow),
        TEST(test_more_than_is_told),
        TEST(test_incomplete_stays_so),
        TEST(test_small_trees_are_not_watched),
        TEST(test_mappings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
