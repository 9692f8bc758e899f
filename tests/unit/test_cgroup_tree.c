/* The tree is looked for in /proc/self/mounts, so each test runs in a child with a mount namespace
 * of its own, where /proc is a tmpfs with the mounts of the machine that the test wants. The
 * hierarchies are folders there; no real one is touched. */
#include "unit.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/fdio.h"
#include "keeper/cgroup_tree.h"

static const char state_dir[] = "/run/husk";

struct machine {
    const char *mounts;            /* /proc/self/mounts */
    const char *cgroup;            /* /proc/self/cgroup; NULL: none */
    const char *controllers;       /* in /proc/v2, the v2 hierarchy; NULL: none */
    const char *controllers_below; /* in /proc/v2/user/me */
};

static void put_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    child_check(fd >= 0);
    child_check(write_all(fd, text, strlen(text)) == 0);
    close(fd);
}

static void become(const struct machine *machine)
{
    static const char *const folders[] = {"/proc/self",   "/proc/v1",      "/proc/v1/memory",
                                          "/proc/v1/cpu", "/proc/v1/pids", "/proc/v1/cpuacct",
                                          "/proc/v2",     "/proc/v2/user", "/proc/v2/user/me"};
    child_check(unshare(CLONE_NEWNS) == 0);
    child_check(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    child_check(mount("tmpfs", "/proc", "tmpfs", 0, NULL) == 0);
    for (size_t i = 0; i < ARRAY_LENGTH(folders); i++)
        child_check(mkdir(folders[i], 0755) == 0);
    put_file("/proc/self/mounts", machine->mounts);
    if (machine->cgroup)
        put_file("/proc/self/cgroup", machine->cgroup);
    if (machine->controllers)
        put_file("/proc/v2/cgroup.controllers", machine->controllers);
    if (machine->controllers_below)
        put_file("/proc/v2/user/me/cgroup.controllers", machine->controllers_below);
}

static void expect_hierarchy(const struct cgroup_tree *tree, enum controller controller,
                             const char *parent, bool unified)
{
    int index = tree->of[controller];
    child_check(index >= 0 && index < tree->count);
    const struct cgroup_hierarchy *hierarchy = &tree->hierarchies[index];
    char path[256];
    (void)snprintf(path, sizeof path, "%s/husk-run-husk", parent);
    child_check(strcmp(hierarchy->parent, parent) == 0);
    child_check(strcmp(hierarchy->path, path) == 0);
    child_check(hierarchy->unified == unified);
}

static struct cgroup_tree find(const struct machine *machine, const char *below)
{
    struct cgroup_tree tree;
    struct failure why = {0};
    become(machine);
    int r = cgroup_tree_find(state_dir, below, &tree, &why);
    if (r < 0)
        (void)dprintf(STDERR_FILENO, "%s\n", why.text);
    child_check(r == 0);
    return tree;
}

#define V1_MEMORY  "cgroup /proc/v1/memory cgroup rw,nosuid,relatime,memory 0 0\n"
#define V1_CPU     "cgroup /proc/v1/cpu cgroup rw,cpu 0 0\n"
#define V1_PIDS    "cgroup /proc/v1/pids cgroup rw,pids 0 0\n"
#define V1_CPUACCT "cgroup /proc/v1/cpuacct cgroup rw,cpuacct 0 0\n"
#define V2         "cgroup2 /proc/v2 cgroup2 rw,nsdelegate 0 0\n"
#define OTHERS                                                                                     \
    "sysfs /sys sysfs rw 0 0\n"                                                                    \
    "tmpfs /sys/fs/cgroup tmpfs rw,mode=755,memory,cpu,pids 0 0\n"                                 \
    "cgroup /proc/v1/systemd cgroup rw,xattr,name=memory 0 0\n"                                    \
    "cgroup /proc/v1/cpuset cgroup rw,cpuset 0 0\n"

/* --- finding --------------------------------------------------------------------------------- */

static void old_machine(void *user _unused_)
{
    struct cgroup_tree tree =
        find(&(struct machine){OTHERS V1_CPUACCT V1_CPU V1_MEMORY V1_PIDS}, NULL);
    child_check(tree.count == 4);
    expect_hierarchy(&tree, CONTROLLER_MEMORY, "/proc/v1/memory", false);
    expect_hierarchy(&tree, CONTROLLER_CPU, "/proc/v1/cpu", false);
    expect_hierarchy(&tree, CONTROLLER_PIDS, "/proc/v1/pids", false);
    expect_hierarchy(&tree, CONTROLLER_CPUACCT, "/proc/v1/cpuacct", false);
}

static void v1_has_one_hierarchy_per_controller(void **state _unused_)
{
    assert_int_equal(in_child(old_machine, NULL), 0);
}

static void joint_controllers(void *user _unused_)
{
    struct cgroup_tree tree =
        find(&(struct machine){V1_MEMORY "cgroup /proc/v1/cpu cgroup rw,cpu,cpuacct 0 0\n" V1_PIDS},
             NULL);
    child_check(tree.count == 3);
    expect_hierarchy(&tree, CONTROLLER_CPU, "/proc/v1/cpu", false);
    child_check(tree.of[CONTROLLER_CPU] == tree.of[CONTROLLER_CPUACCT]);
}

static void v1_controllers_may_share_a_hierarchy(void **state _unused_)
{
    assert_int_equal(in_child(joint_controllers, NULL), 0);
}

static void new_machine(void *user _unused_)
{
    struct cgroup_tree tree =
        find(&(struct machine){.mounts = "sysfs /sys sysfs rw 0 0\n" V2,
                               .controllers = "cpuset cpu io memory hugetlb pids rdma misc\n"},
             NULL);
    child_check(tree.count == 1);
    expect_hierarchy(&tree, CONTROLLER_MEMORY, "/proc/v2", true);
    expect_hierarchy(&tree, CONTROLLER_CPU, "/proc/v2", true);
    expect_hierarchy(&tree, CONTROLLER_PIDS, "/proc/v2", true);
    child_check(tree.of[CONTROLLER_CPUACCT] == -1);
}

static void v2_has_one_hierarchy_for_all(void **state _unused_)
{
    assert_int_equal(in_child(new_machine, NULL), 0);
}

static void mixed_machine(void *user _unused_)
{
    struct cgroup_tree tree = find(
        &(struct machine){.mounts = V2 V1_MEMORY V1_CPU, .controllers = "memory pids\n"}, NULL);
    child_check(tree.count == 3);
    expect_hierarchy(&tree, CONTROLLER_MEMORY, "/proc/v1/memory", false);
    expect_hierarchy(&tree, CONTROLLER_CPU, "/proc/v1/cpu", false);
    expect_hierarchy(&tree, CONTROLLER_PIDS, "/proc/v2", true);
}

static void on_hybrid_machines_v1_comes_first(void **state _unused_)
{
    assert_int_equal(in_child(mixed_machine, NULL), 0);
}

static void delegated(void *user _unused_)
{
    struct cgroup_tree tree = find(&(struct machine){.mounts = V1_MEMORY V1_CPU V1_PIDS V2,
                                                     .controllers = "io\n",
                                                     .controllers_below = "memory pids cpu\n"},
                                   "/user/me");
    child_check(tree.count == 1);
    expect_hierarchy(&tree, CONTROLLER_MEMORY, "/proc/v2/user/me", true);
    expect_hierarchy(&tree, CONTROLLER_CPU, "/proc/v2/user/me", true);
    expect_hierarchy(&tree, CONTROLLER_PIDS, "/proc/v2/user/me", true);
}

static void a_user_has_the_delegated_subtree_of_v2_only(void **state _unused_)
{
    assert_int_equal(in_child(delegated, NULL), 0);
}

static void crowded_machine(void *user)
{
    const struct machine *machine = user;
    struct cgroup_tree tree = find(machine, NULL);
    expect_hierarchy(&tree, CONTROLLER_MEMORY, "/proc/v1/memory", false);
    expect_hierarchy(&tree, CONTROLLER_CPU, "/proc/v1/cpu", false);
    expect_hierarchy(&tree, CONTROLLER_PIDS, "/proc/v2", true);
}

/* Container engines have mounts with long options; a cgroup may come right behind one. */
static void long_lines_hide_nothing(void **state _unused_)
{
    static const size_t lengths[] = {400, 511, 512, 513, 4000, 20000};
    for (size_t i = 0; i < ARRAY_LENGTH(lengths); i++) {
        static char options[20001], mounts[65536];
        memset(options, 'o', sizeof options);
        options[lengths[i]] = '\0';
        (void)snprintf(mounts, sizeof mounts,
                       "overlay / overlay %s 0 0\n" V1_MEMORY "overlay /x overlay %s 0 0\n" V1_CPU
                       "overlay /y overlay %s 0 0\n" V2,
                       options, options, options);
        print_message("options of %zu bytes\n", lengths[i]);
        struct machine machine = {.mounts = mounts, .controllers = "pids\n"};
        assert_int_equal(in_child(crowded_machine, &machine), 0);
    }
}

static void other_mounts_of_v2_do_not_matter(void **state _unused_)
{
    struct machine machine = {.mounts =
                                  V1_MEMORY V1_CPU V2 "cgroup2 /proc/elsewhere cgroup2 rw 0 0\n",
                              .controllers = "pids\n"};
    assert_int_equal(in_child(crowded_machine, &machine), 0);
}

/* --- not finding ----------------------------------------------------------------------------- */

struct lack {
    struct machine machine;
    const char *below;
    const char *says[2];
};

static void look_in_vain(void *user)
{
    const struct lack *lack = user;
    struct cgroup_tree tree = {.count = 77};
    struct failure why = {0};
    become(&lack->machine);
    child_check(cgroup_tree_find(state_dir, lack->below, &tree, &why) == -ENOENT);
    child_check(why.code == ENOENT);
    child_check(tree.count == 77);
    for (size_t i = 0; i < ARRAY_LENGTH(lack->says); i++)
        child_check(strstr(why.text, lack->says[i]));
}

static void a_missing_controller_is_named_with_what_to_do(void **state _unused_)
{
    static struct lack lacks[] = {
        {{.mounts = ""}, NULL, {"'memory'", "--no-limits"}},
        {{.mounts = OTHERS V1_MEMORY V1_PIDS V1_CPUACCT}, NULL, {"'cpu'", "--no-limits"}},
        {{.mounts = V1_MEMORY V1_CPU}, NULL, {"'pids'", "--no-limits"}},
        {{.mounts = V2}, NULL, {"'memory'", "--no-limits"}},
        {{.mounts = V2, .controllers = "memory cpu\n"}, NULL, {"'pids'", "--no-limits"}},
        {{.mounts = V2, .controllers = "memory cpuset pids\n"}, NULL, {"'cpu'", "--no-limits"}},
        {{.mounts = V2, .controllers = "memory cpu pids\n", .controllers_below = "memory pids\n"},
         "/user/me",
         {"'cpu'", "Delegate=yes"}},
        {{.mounts = V1_MEMORY V1_CPU V1_PIDS}, "", {"'memory'", "Delegate=yes"}},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(lacks); i++) {
        print_message("machine %zu\n", i);
        assert_int_equal(in_child(look_in_vain, &lacks[i]), 0);
    }
}

static void without_mounts(void *user _unused_)
{
    struct cgroup_tree tree;
    struct failure why = {0};
    become(&(struct machine){.mounts = ""});
    child_check(unlink("/proc/self/mounts") == 0);
    child_check(cgroup_tree_find(state_dir, NULL, &tree, &why) == -ENOENT);
    child_check(strstr(why.text, "cgroup hierarchies"));
}

static void a_machine_without_proc_is_an_error(void **state _unused_)
{
    assert_int_equal(in_child(without_mounts, NULL), 0);
}

/* --- names ----------------------------------------------------------------------------------- */

static void names(void *user _unused_)
{
    static const struct {
        const char *directory, *path;
    } cases[] = {{"/run/husk", "/proc/v1/memory/husk-run-husk"},
                 {"/", "/proc/v1/memory/husk-"},
                 {"relative/dir", "/proc/v1/memory/husk-relative-dir"},
                 {"/run/a-b", "/proc/v1/memory/husk-run-a--b"},
                 {"/tmp/x.y/_z", "/proc/v1/memory/husk-tmp-x.y-_z"}};
    become(&(struct machine){V1_MEMORY V1_CPU V1_PIDS});
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct cgroup_tree tree;
        child_check(cgroup_tree_find(cases[i].directory, NULL, &tree, NULL) == 0);
        child_check(strcmp(tree.hierarchies[0].path, cases[i].path) == 0);
    }
    char endless[600];
    struct cgroup_tree tree;
    struct failure why = {0};
    memset(endless, 'd', sizeof endless);
    endless[0] = '/';
    endless[sizeof endless - 1] = '\0';
    child_check(cgroup_tree_find(endless, NULL, &tree, &why) == -ENAMETOOLONG);
    child_check(why.text[0]);
}

static void the_tree_is_named_after_the_state_directory(void **state _unused_)
{
    assert_int_equal(in_child(names, NULL), 0);
}

/* --- one's own cgroup ------------------------------------------------------------------------ */

struct own {
    const char *file;
    int result;
    const char *path;
};

static void look_at_own(void *user)
{
    const struct own *own = user;
    char path[16] = "unset";
    struct failure why = {0};
    become(&(struct machine){.mounts = "", .cgroup = own->file});
    int r = cgroup_own_path(path, sizeof path, &why);
    child_check(r == own->result);
    child_check(why.code == -r && (r == 0 || why.text[0]));
    if (r == 0)
        child_check(strcmp(path, own->path) == 0);
}

static void ones_own_cgroup_is_that_of_v2(void **state _unused_)
{
    static struct own cases[] = {
        {"0::/user/me\n", 0, "/user/me"},
        {"12:pids:/a\n1:name=systemd:/b\n0::/user/me\n", 0, "/user/me"},
        {"0::/user/me\n12:pids:/a\n", 0, "/user/me"},
        {"0::/user/me", 0, "/user/me"},
        {"0::/\n", 0, ""},
        {"12:pids:/a\n10::/b\n", -ENOENT, NULL},
        {"", -ENOENT, NULL},
        {"0::/longer-than-there-is-room\n", -ENAMETOOLONG, NULL},
        {NULL, -ENOENT, NULL},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        print_message("file %zu\n", i);
        assert_int_equal(in_child(look_at_own, &cases[i]), 0);
    }
}

/* --- making and removing, in v1, which needs nothing but folders ------------------------------- */

static bool is_folder_of(const char *path, uid_t owner)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == owner &&
           status.st_gid == owner;
}

static void make_and_remove(void *user _unused_)
{
    static const char *const paths[] = {"/proc/v1/memory/husk-run-husk",
                                        "/proc/v1/memory/husk-run-husk/service",
                                        "/proc/v1/pids/husk-run-husk/service"};
    struct failure why = {0};
    struct cgroup_tree tree = find(&(struct machine){V1_MEMORY V1_CPU V1_PIDS V1_CPUACCT}, NULL);
    /* what a service that was killed left behind */
    child_check(mkdir("/proc/v1/memory/husk-run-husk", 0700) == 0);
    child_check(mkdir("/proc/v1/memory/husk-run-husk/old", 0700) == 0);
    child_check(mkdir("/proc/v1/memory/husk-run-husk/old/nested", 0700) == 0);
    child_check(mkdir("/proc/v1/memory/other", 0700) == 0);
    child_check(cgroup_tree_make(&tree, 4321, &why) == 0);
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++)
        child_check(is_folder_of(paths[i], 4321));
    child_check(access("/proc/v1/memory/husk-run-husk/old", F_OK) < 0);
    child_check(is_folder_of("/proc/v1/memory", 0));
    child_check(mkdir("/proc/v1/cpu/husk-run-husk/sandbox", 0755) == 0);
    child_check(cgroup_tree_remove(&tree, &why) == 0);
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++)
        child_check(access(paths[i], F_OK) < 0);
    child_check(access("/proc/v1/cpu/husk-run-husk", F_OK) < 0);
    child_check(access("/proc/v1/memory/other", F_OK) == 0);
    child_check(cgroup_tree_remove(&tree, &why) == 0);
}

static void the_tree_is_made_anew_and_removed_whole(void **state _unused_)
{
    assert_int_equal(in_child(make_and_remove, NULL), 0);
}

static void enter(void *user _unused_)
{
    char text[16];
    struct failure why = {0};
    struct cgroup_tree tree = find(&(struct machine){V1_MEMORY V1_CPU V1_PIDS}, NULL);
    child_check(cgroup_tree_make(&tree, 0, &why) == 0);
    child_check(cgroup_tree_enter(&tree, 4711, &why) == -ENOENT);
    child_check(strstr(why.text, "4711"));
    static const char *const files[] = {"/proc/v1/memory/husk-run-husk/service/cgroup.procs",
                                        "/proc/v1/cpu/husk-run-husk/service/cgroup.procs",
                                        "/proc/v1/pids/husk-run-husk/service/cgroup.procs"};
    for (size_t i = 0; i < ARRAY_LENGTH(files); i++)
        put_file(files[i], "");
    child_check(cgroup_tree_enter(&tree, 4711, &why) == 0);
    for (size_t i = 0; i < ARRAY_LENGTH(files); i++) {
        child_check(read_file_at(AT_FDCWD, files[i], text, sizeof text) > 0);
        child_check(strcmp(text, "4711") == 0);
    }
}

static void a_process_enters_every_hierarchy(void **state _unused_)
{
    assert_int_equal(in_child(enter, NULL), 0);
}

static void no_limits(void *user _unused_)
{
    struct cgroup_tree none = {0};
    struct failure why = {0};
    child_check(cgroup_tree_make(&none, 0, &why) == 0);
    child_check(cgroup_tree_enter(&none, 1, &why) == 0);
    child_check(cgroup_tree_remove(&none, &why) == 0);
}

static void without_limits_there_is_nothing_to_do(void **state _unused_)
{
    assert_int_equal(in_child(no_limits, NULL), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(v1_has_one_hierarchy_per_controller),
        cmocka_unit_test(v1_controllers_may_share_a_hierarchy),
        cmocka_unit_test(v2_has_one_hierarchy_for_all),
        cmocka_unit_test(on_hybrid_machines_v1_comes_first),
        cmocka_unit_test(a_user_has_the_delegated_subtree_of_v2_only),
        cmocka_unit_test(long_lines_hide_nothing),
        cmocka_unit_test(other_mounts_of_v2_do_not_matter),
        cmocka_unit_test(a_missing_controller_is_named_with_what_to_do),
        cmocka_unit_test(a_machine_without_proc_is_an_error),
        cmocka_unit_test(the_tree_is_named_after_the_state_directory),
        cmocka_unit_test(ones_own_cgroup_is_that_of_v2),
        cmocka_unit_test(the_tree_is_made_anew_and_removed_whole),
        cmocka_unit_test(a_process_enters_every_hierarchy),
        cmocka_unit_test(without_limits_there_is_nothing_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
