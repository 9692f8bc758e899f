/* Files that changed, for those that run at the same time. */
#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "husk/limits.h"
#include "shim/home_changes.h"

enum {
    FOLDERS = 40,
    FILES = 50 /* in each: more than UNWATCHED_FILES together, so that the tree is watched */
};

struct fixture {
    char path[32];
    int home;
    struct file_links links;
    struct home_changes *changes;
};

static void write_file(struct fixture *fixture, const char *path)
{
    int fd = openat(fixture->home, path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    char name[32];
    make_directory(fixture->path);
    fixture->home = open(fixture->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fixture->links.seconds = 60;
    for (int folder = 0; folder < FOLDERS; folder++) {
        (void)snprintf(name, sizeof name, "%d", folder);
        assert_int_equal(mkdirat(fixture->home, name, 0700), 0);
        for (int file = 0; file < FILES; file++) {
            (void)snprintf(name, sizeof name, "%d/%d", folder, file);
            write_file(fixture, name);
        }
    }
    fixture->changes = home_changes_new(fixture->home, &fixture->links);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char command[64];
    home_changes_free(fixture->changes);
    close(fixture->home);
    (void)snprintf(command, sizeof command, "rm -rf %s", fixture->path);
    assert_int_equal(system(command), 0);
    free(fixture);
    return 0;
}

static bool has(const json_t *files, const char *path)
{
    size_t i;
    json_t *file;
    json_array_foreach(files, i, file)
    {
        if (strcmp(json_string_value(json_object_get(file, "path")), path) == 0)
            return true;
    }
    return false;
}

static json_t *since(struct fixture *fixture, const struct home_mark *mark)
{
    bool truncated = true;
    json_t *files = home_changes_since(fixture->changes, mark, &truncated);
    assert_false(truncated);
    return files;
}

/* Stamps may be as coarse as the timer's tick. */
static struct home_mark mark_later(struct fixture *fixture)
{
    (void)usleep(10 * 1000);
    return home_changes_mark(fixture->changes);
}

/* One begins first and asks last: what happened meanwhile was looked at for the others, and is still told. */
static void who_asks_first_takes_nothing_from_the_other(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 3; i++) { /* until the tree is watched */
        struct home_mark mark = mark_later(fixture);
        json_decref(since(fixture, &mark));
    }
    struct home_mark first = mark_later(fixture);
    write_file(fixture, "3/made");
    for (int i = 10; i < FOLDERS;
         i++) { /* more recent than that: it is not looked at again for its own sake */
        char name[32];
        struct home_mark other = mark_later(fixture);
        (void)snprintf(name, sizeof name, "%d/other", i);
        write_file(fixture, name);
        json_auto_t *files = since(fixture, &other);
        assert_true(has(files, name));
        assert_false(has(files, "3/made"));
    }
    json_auto_t *files = since(fixture, &first);
    assert_true(has(files, "3/made"));
    assert_true(has(files, "39/other"));
    assert_int_equal(json_array_size(files), 1 + FOLDERS - 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_asks_first_takes_nothing_from_the_other, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
