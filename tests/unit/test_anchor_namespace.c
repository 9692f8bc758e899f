#include "unit.h"

#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/fdio.h"
#include "keeper/anchor_namespace.h"

enum {
    NOBODY_AT_ALL = 3999999, /* a number that is nobody's */
    ID_BASE = 300000
};

static char directory[32], path[64];

static int make_file(void **state _unused_)
{
    make_directory(directory);
    (void)snprintf(path, sizeof path, "%s/subuid", directory);
    return 0;
}

static int remove_file(void **state _unused_)
{
    (void)unlink(path);
    return rmdir(directory);
}

static void write_lines(const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* --- subordinate ids ------------------------------------------------------------------------- */

struct lines {
    const char *text;
    unsigned first; /* 0: nothing is found */
};

static void check_user(uid_t user, const struct lines *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct id_range range = {.first = 7, .count = 8};
        struct failure why = {0};
        write_lines(cases[i].text);
        int r = namespace_subordinate_ids(path, user, &range, &why);
        if (cases[i].first) {
            if (r != 0 || range.first != cases[i].first || range.count < NAMESPACE_IDS - 1)
                fail_msg("%d, %u, %u for: %s", r, range.first, range.count, cases[i].text);
        } else if (r != -EPERM || range.first != 7 || range.count != 8) {
            fail_msg("%d, %u, %u for: %s", r, range.first, range.count, cases[i].text);
        }
    }
}

static void ranges_are_found_by_name_and_by_number(void **state _unused_)
{
    static const struct lines of_root[] = {
        {"root:100000:65536\n", 100000},
        {"0:100000:65536\n", 100000},
        {"root:100000:65536", 100000},
        {"a:1:65536\nroot:200000:65536\nb:3:65536\n", 200000},
        {"\nroot:100000:65536\n\n", 100000},
        {"root:100000:65535\n", 100000},
        {"root:100000:1000000\n", 100000},
        {"root:100000:65534\n", 0},
        {"root:100000:1\nroot:300000:65536\n", 300000},
        /* lines that are something else do not hide the next */
        {"# comment\nroot:100000:65536\n", 100000},
        {"broken\nbroken:1\nbroken:x:y\n:::\nroot:100000:65536\n", 100000},
        {"other:1:2:3\nroot:100000:65536\n", 100000},
        {"a-name-of-more-than-sixty-three-bytes-which-is-more-than-any-program-makes:1:65536\n"
         "root:100000:65536\n",
         100000},
        {"root:-1:65536\nroot:1:4294967296\nroot:99999999999:65536\nroot:100000:65536\n", 100000},
        {"roo:100000:65536\nroott:100000:65536\n00:100000:65536\n", 0},
        {"", 0},
        {"root\n", 0},
        {"root:100000\n", 0},
        {"root:x:65536\n", 0},
        {":100000:65536\n", 0},
    };
    static const struct lines of_a_number[] = {
        {"3999999:100000:65536\n", 100000},
        {"root:100000:65536\n0:5:65536\n3999999:200000:65536\n", 200000},
        {"root:100000:65536\n", 0},
    };
    check_user(0, of_root, ARRAY_LENGTH(of_root));
    check_user(NOBODY_AT_ALL, of_a_number, ARRAY_LENGTH(of_a_number));
}

static void who_has_none_is_told_what_to_do(void **state _unused_)
{
    struct id_range range;
    struct failure why = {0};
    write_lines("");
    assert_true(namespace_subordinate_ids(path, 0, &range, &why) < 0);
    assert_non_null(strstr(why.text, "user root"));
    assert_non_null(strstr(why.text, path));
    assert_non_null(strstr(why.text, "usermod --add-subuids"));
    assert_true(namespace_subordinate_ids("/nowhere/subuid", 0, &range, &why) < 0);
    assert_non_null(strstr(why.text, "/nowhere/subuid"));
}

static void ids_that_are_lent_are_noticed(void **state _unused_)
{
    static const struct {
        const char *text;
        const char *owner; /* NULL: not lent */
    } cases[] = {
        {"", NULL},
        {"someone:100000:65536\n", NULL},
        {"someone:300000:65536\n", "someone"},
        {"a:100000:65536\nsomeone:300000:65536\nb:400000:65536\n", "someone"},
        {"someone:234464:65536\n", NULL}, /* ends just before */
        {"someone:234465:65536\n", "someone"},
        {"someone:365536:65536\n", NULL}, /* begins just behind */
        {"someone:365535:1\n", "someone"},
        {"someone:310000:1\n", "someone"},  /* within */
        {"someone:1:1000000\n", "someone"}, /* around */
        {"# comment\nbroken:1\nsomeone:300000:65536\n", "someone"},
        {"someone:1:4294967295\n", "someone"},
        {"someone:4294901760:65536\n", NULL}, /* up to the very last id */
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char owner[NAMESPACE_OWNER_SIZE] = "";
        write_lines(cases[i].text);
        bool lent = namespace_ids_are_lent(path, ID_BASE, owner);
        if (lent != (cases[i].owner != NULL) || (lent && strcmp(owner, cases[i].owner) != 0))
            fail_msg("%d by %s for: %s", lent, owner, cases[i].text);
    }
    char owner[NAMESPACE_OWNER_SIZE];
    assert_false(namespace_ids_are_lent("/nowhere/subuid", ID_BASE, owner));
}

/* --- the namespace itself, made by root -------------------------------------------------------- */

static bool file_says(const char *file, const char *text)
{
    static char content[256 * 1024];
    return read_file_at(AT_FDCWD, file, content, sizeof content) >= 0 && strstr(content, text);
}

/* Pid 1 of the namespace, once its ids are there. */
static void look_around(int go)
{
    char byte, link[16] = "";
    struct failure why = {0};
    child_check(read_exactly(go, &byte, 1) == 0);
    int r = namespace_enter(&why);
    if (r < 0)
        (void)dprintf(STDERR_FILENO, "%s\n", why.text);
    child_check(r == 0);
    child_check(getuid() == 0 && geteuid() == 0 && getgid() == 0 && getegid() == 0);
    child_check(getgroups(0, NULL) == 0);
    child_check(getpid() == 1);
    child_check(readlink("/proc/self", link, sizeof link - 1) == 1 && link[0] == '1');
    child_check(file_says("/proc/self/uid_map", " 300000      65536\n"));
    child_check(file_says("/proc/self/gid_map", " 300000      65536\n"));
    /* its children's maps can be written, which needs a process that may be looked at */
    struct stat status;
    child_check(stat("/proc/self/uid_map", &status) == 0 && status.st_uid == 0);
    child_check(file_says("/proc/self/mountinfo", " - proc "));
    child_check(!file_says("/proc/self/mountinfo", " shared:"));
    child_check(!file_says("/proc/self/mountinfo", " master:"));
    _exit(0);
}

/* On a machine where mounts are shared, as most are. */
static void make_namespace(void *user _unused_)
{
    int go[2], status = -1;
    struct failure why = {0};
    child_check(unshare(CLONE_NEWNS) == 0);
    child_check(mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL) == 0);
    child_check(pipe2(go, O_CLOEXEC) == 0);
    pid_t child = namespace_fork(geteuid(), &why);
    if (child == 0)
        look_around(go[0]);
    child_check(child > 0);
    child_check(namespace_write_maps(child, ID_BASE, &why) == 0);
    child_check(write_all(go[1], "g", 1) == 0);
    child_check(waitpid(child, &status, 0) == child);
    child_check(status == 0);
}

static void the_namespace_has_its_ids_pids_and_mounts(void **state _unused_)
{
    assert_int_equal(in_child(make_namespace, NULL), 0);
}

static void maps_of_nobody_cannot_be_written(void **state _unused_)
{
    struct failure why = {0};
    assert_int_equal(namespace_write_maps(NOBODY_AT_ALL * 100, ID_BASE, &why), -ENOENT);
    assert_non_null(strstr(why.text, "uid_map"));
}

static void fork_without_permission(void *user _unused_)
{
    struct failure why = {0};
    child_check(unshare(CLONE_NEWUSER) == 0);
    int fd = open("/proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC);
    child_check(fd >= 0);
    child_check(write_all(fd, "0", 1) == 0);
    pid_t child = namespace_fork(geteuid(), &why);
    if (child == 0)
        _exit(1);
    child_check(child == -ENOSPC);
    child_check(strstr(why.text, "max_user_namespaces"));
}

static void a_system_without_user_namespaces_is_named(void **state _unused_)
{
    assert_int_equal(in_child(fork_without_permission, NULL), 0);
}

#define WITH_FILE(name) cmocka_unit_test_setup_teardown(name, make_file, remove_file)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_FILE(ranges_are_found_by_name_and_by_number),
        WITH_FILE(who_has_none_is_told_what_to_do),
        WITH_FILE(ids_that_are_lent_are_noticed),
        cmocka_unit_test(the_namespace_has_its_ids_pids_and_mounts),
        cmocka_unit_test(maps_of_nobody_cannot_be_written),
        cmocka_unit_test(a_system_without_user_namespaces_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
