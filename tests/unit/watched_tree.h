/* For the tests of tree_watch: a tree, and what is found in it with watches and without. On a tmpfs, as the sandboxes' files are. */
#pragma once

#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "shim/changed_files.h"
#include "shim/tree_watch.h"
#include "still_clock.h"

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
    bool may_link; /* what has several names makes everything be looked at more often */
    bool linked;   /* in this execution */
    int held[HELD];
};

static const struct tree_watch_bounds every_tree = {.least_entries = 0, .most_folders = 8192};

_unused_ static int set_up(void **state)
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

_unused_ static int tear_down(void **state)
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

_unused_ static void watch_with(struct fixture *fixture, struct tree_watch_bounds bounds)
{
    tree_watch_free(fixture->watch);
    fixture->watch = tree_watch_new(bounds);
}

/* Kernels before 6.13 stamp with the tick: let it pass, so that what comes is later than what was. */
_unused_ static void begin(struct fixture *fixture)
{
    struct timespec start, now;
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &start);
    do {
        (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    } while (now.tv_sec == start.tv_sec && now.tv_nsec == start.tv_nsec);
    fixture->since = moment_now();
    fixture->linked = false;
}

_unused_ static bool find(struct fixture *fixture)
{
    changed_files_free(&fixture->found);
    changed_files_free(&fixture->reference);
    return changed_files_find(fixture->home, fixture->watch, &fixture->since, &fixture->found) ==
               0 &&
           changed_files_find(fixture->home, NULL, &fixture->since, &fixture->reference) == 0;
}

_unused_ static bool same_file(const struct changed_file *a, const struct changed_file *b)
{
    return !strcmp(a->path, b->path) && a->size == b->size && a->created == b->created;
}

_unused_ static bool same(const struct fixture *fixture)
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

_unused_ static void expect_count(struct fixture *fixture, size_t count)
{
    assert_true(find(fixture));
    assert_true(same(fixture));
    assert_int_equal(fixture->found.count, count);
}

_unused_ static void write_file(const struct fixture *fixture, const char *name, const char *text,
                                int flags)
{
    int fd = openat(fixture->home, name, O_WRONLY | O_CLOEXEC | flags, 0600);
    if (fd < 0)
        return;
    (void)!write(fd, text, strlen(text));
    close(fd);
}

_unused_ static void create(const struct fixture *fixture, const char *name)
{
    write_file(fixture, name, "new", O_CREAT);
    assert_int_equal(faccessat(fixture->home, name, F_OK, 0), 0);
}

_unused_ static void make_folders(const struct fixture *fixture, const char *path)
{
    char part[PATH];
    for (const char *end = path; (end = strchr(end, '/')); end++) {
        (void)snprintf(part, sizeof part, "%.*s", (int)(end - path), path);
        (void)mkdirat(fixture->home, part, 0700);
    }
}

/* In the tree, with `path` as $1. */
_unused_ static void run_shell(const struct fixture *fixture, const char *script, const char *path)
{
    char text[PATH + 128];
    (void)snprintf(text, sizeof text, "cd %s && set -- '%s' && %s", fixture->path, path, script);
    (void)!system(text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
