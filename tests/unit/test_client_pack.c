#include "command/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <locale.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "command/link_path.h"
#include "unit.h"

static char top[32];

static char *below(const char *name)
{
    static char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", top, name);
    return path;
}

static void write_text(const char *name, const char *text)
{
    int fd = open(below(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static int set_up(void **state)
{
    (void)state;
    make_directory(top);
    assert_int_equal(mkdir(below("a"), 0755), 0);
    assert_int_equal(mkdir(below("a/build"), 0755), 0);
    assert_int_equal(mkdir(below("empty"), 0700), 0);
    write_text("a/main.py", "print(1)\n");
    write_text("a/build/x.o", "object");
    write_text("\xe6\x95\xb0\xe6\x8d\xae.csv", "1,2\n");
    write_text("nothing", "");
    assert_int_equal(symlink("a/main.py", below("inside")), 0);
    assert_int_equal(symlink("../nothing", below("a/up")), 0);
    assert_int_equal(symlink("/etc/passwd", below("outside")), 0);
    assert_int_equal(mkfifo(below("pipe"), 0600), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    _cleanup_free_ char *command = must_format("rm -rf %s", top);
    assert_int_equal(system(command), 0);
    return 0;
}

/* All of it, in pieces of `room` bytes. */
static void read_all(struct pack *pack, size_t room, struct buffer *out)
{
    char piece[4096];
    for (ptrdiff_t n; (n = pack_read(piece, room, pack)) != 0;) {
        assert_true(n > 0 && (size_t)n <= room);
        assert_int_equal(buffer_append(out, piece, (size_t)n), 0);
    }
}

/* "name=content" or "name->target" or "name/" of each entry, in order, one a line. */
static char *describe(const struct buffer *tar)
{
    _cleanup_buffer_ struct buffer out = {};
    struct archive *archive = archive_read_new();
    assert_int_equal(archive_read_support_format_tar(archive), ARCHIVE_OK);
    assert_int_equal(archive_read_open_memory(archive, tar->data, tar->length), ARCHIVE_OK);
    struct archive_entry *entry;
    while (archive_read_next_header(archive, &entry) == ARCHIVE_OK) {
        const char *target = archive_entry_symlink(entry);
        char content[256] = "";
        ssize_t n = archive_read_data(archive, content, sizeof content - 1);
        assert_true(n >= 0);
        assert_int_equal(archive_entry_uid(entry), 0);
        (void)buffer_printf(&out, "%s%s%s\n", archive_entry_pathname(entry),
                            target                               ? "->"
                            : S_ISDIR(archive_entry_mode(entry)) ? ""
                                                                 : "=",
                            target ? target : content);
    }
    (void)archive_read_free(archive);
    return buffer_take(&out);
}

static void packs(void **state)
{
    (void)state;
    static const size_t rooms[] = {1, 7, 512, 4096};
    for (size_t i = 0; i < ARRAY_LENGTH(rooms); i++) {
        struct pack *pack;
        struct failure why;
        _cleanup_buffer_ struct buffer tar = {};
        assert_int_equal(
            pack_new(&(struct pack_order){.folder = top, .name = "project"}, &pack, &why), 0);
        assert_int_equal(pack_counts(pack)->total_bytes, 9 + 6 + 4);
        read_all(pack, rooms[i], &tar);
        assert_null(pack_failure(pack));
        const struct pack_counts *counts = pack_counts(pack);
        assert_int_equal(counts->bytes, counts->total_bytes);
        assert_int_equal(counts->left_out, 2);
        assert_string_equal(counts->first_left_out, "outside");
        _cleanup_free_ char *text = describe(&tar);
        assert_string_equal(text,
                            "project/\nproject/a/\nproject/a/build/\nproject/a/build/x.o=object\n"
                            "project/a/main.py=print(1)\n\nproject/a/up->../nothing\n"
                            "project/empty/\nproject/inside->a/main.py\nproject/nothing=\n"
                            "project/\xe6\x95\xb0\xe6\x8d\xae.csv=1,2\n\n");
        pack_free(pack);
    }
}

static void excludes(void **state)
{
    (void)state;
    static const char *const patterns[] = {"build", "*.csv", "a/up", "main.py/"};
    struct pack *pack;
    _cleanup_buffer_ struct buffer tar = {};
    _cleanup_free_ char *slashes = must_format("%s///", top);
    struct pack_order order = {.folder = slashes, .excludes = patterns, .exclude_count = 4};
    assert_int_equal(pack_new(&order, &pack, NULL), 0);
    assert_int_equal(pack_counts(pack)->total_bytes, 9);
    read_all(pack, 4096, &tar);
    _cleanup_free_ char *text = describe(&tar);
    assert_string_equal(text, "a/\na/main.py=print(1)\n\nempty/\ninside->a/main.py\nnothing=\n");
    pack_free(pack);
}

static void failures(void **state)
{
    (void)state;
    struct pack *pack;
    struct failure why = {};
    assert_int_equal(pack_new(&(struct pack_order){.folder = below("none")}, &pack, &why), -ENOENT);
    assert_non_null(strstr(why.text, "none"));
    assert_int_equal(pack_new(&(struct pack_order){.folder = below("nothing")}, &pack, &why),
                     -ENOTDIR);
    /* A file that goes away while its folder is packed. What is before it is longer than a block. */
    _cleanup_free_ char *large = must_alloc(300001);
    write_text("a/large", memset(large, 'x', 300000));
    assert_int_equal(pack_new(&(struct pack_order){.folder = top}, &pack, &why), 0);
    char piece[1024];
    ptrdiff_t n = pack_read(piece, 1, pack);
    assert_int_equal(n, 1);
    assert_int_equal(unlink(below("nothing")), 0);
    while ((n = pack_read(piece, sizeof piece, pack)) > 0)
        ;
    assert_int_equal(n, -ENOENT);
    assert_non_null(strstr(pack_failure(pack), "nothing"));
    pack_free(pack);
    /* One that nobody reads to its end. */
    assert_int_equal(pack_new(&(struct pack_order){.folder = top}, &pack, &why), 0);
    assert_true(pack_read(piece, 100, pack) > 0);
    assert_null(pack_free(pack));
    assert_null(pack_free(NULL));
}

/* Once it has begun, a link in the place of a folder leads nowhere. */
static void race(void **state)
{
    (void)state;
    char elsewhere[32], piece[1024];
    struct pack *pack;
    struct failure why = {};
    _cleanup_buffer_ struct buffer tar = {};
    make_directory(elsewhere);
    _cleanup_free_ char *secret = must_format("%s/secret", elsewhere);
    int fd = open(secret, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write_all(fd, "outside", 7), 0);
    close_fd(fd);
    _cleanup_free_ char *large = must_alloc(300001);
    write_text("a/large", memset(large, 'x', 300000));
    assert_int_equal(mkdir(below("z"), 0755), 0);
    write_text("z/secret", "own");
    assert_int_equal(pack_new(&(struct pack_order){.folder = top}, &pack, &why), 0);
    assert_int_equal(pack_read(piece, 1, pack), 1);
    _cleanup_free_ char *moved = must_format("%s/moved", elsewhere);
    assert_int_equal(rename(below("z"), moved), 0);
    assert_int_equal(symlink(elsewhere, below("z")), 0);
    ptrdiff_t n;
    while ((n = pack_read(piece, sizeof piece, pack)) > 0)
        assert_int_equal(buffer_append(&tar, piece, (size_t)n), 0);
    assert_null(memmem(tar.data, tar.length, "outside", 7));
    /* It is a link by now, and one that leads out. */
    assert_int_equal(n, 0);
    assert_int_equal(pack_counts(pack)->left_out, 3);
    pack_free(pack);
    _cleanup_free_ char *command = must_format("rm -rf %s", elsewhere);
    assert_int_equal(system(command), 0);
}

static void deep(void **state)
{
    (void)state;
    struct pack *pack;
    struct failure why = {};
    int folder = open(top, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(mkdirat(folder, "d", 0755), 0);
        int inner = openat(folder, "d", O_RDONLY | O_DIRECTORY);
        assert_true(inner >= 0);
        close_fd(folder);
        folder = inner;
    }
    close_fd(folder);
    int before = open_descriptors();
    assert_int_equal(pack_new(&(struct pack_order){.folder = top}, &pack, &why), -ELOOP);
    assert_int_equal(open_descriptors(), before);
}

static void links(void **state)
{
    (void)state;
    static const struct {
        const char *path, *target;
        bool stays;
    } cases[] = {
        {"a", "b", true},          {"a", "..", false},      {"a", "/etc", false},
        {"a", "", false},          {"d/a", "..", true},     {"d/a", "../..", false},
        {"d/a", "../b/c", true},   {"d/a", "./../b", true}, {"d/a", "b/../c", false},
        {"d/e/a", "../../", true}, {"./d//a", "..", true},  {"./d//a", "../..", false},
        {"a", "b/..", false},      {"a", "...", true},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_int_equal(link_stays(cases[i].path, cases[i].target), cases[i].stays);
    static const char *const good[] = {"a", "a/b", "./a", "a//b", "..a", "a..", "a/.../b"};
    static const char *const bad[] = {"", ".", "/", "/a", "..", "a/..", "a/../b", "./", "../a"};
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++)
        assert_true(path_is_below(good[i]));
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        assert_false(path_is_below(bad[i]));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(packs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(excludes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(race, set_up, tear_down),
        cmocka_unit_test_setup_teardown(deep, set_up, tear_down),
        cmocka_unit_test(links),
    };
    (void)setlocale(LC_ALL, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
