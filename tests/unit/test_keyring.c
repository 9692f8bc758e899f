/* Keys files, good and bad; whom a key leads to, before and after another reading. */
#include "unit.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attributes.h"
#include "huskd/caller.h"
#include "huskd/config.h"
#include "huskd/key_file.h"
#include "huskd/keyring.h"

#define HASH_A                                                                                     \
    "sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb" /* of "a" */
#define HASH_B                                                                                     \
    "sha256:3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d" /* of "b" */
#define HASH_C                                                                                     \
    "sha256:2e7d2c03a9507ae265ecf5b5356885a53393a2029d241394997265a1a25aefc6" /* of "c" */

struct fixture {
    struct config config;
    struct callers *callers;
    struct keyring *keyring;
    struct failure why;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    config_defaults(&fixture->config);
    fixture->callers = callers_new();
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    keyring_free(fixture->keyring);
    callers_free(fixture->callers);
    config_free(&fixture->config);
    free(fixture);
    return 0;
}

static void set(char **setting, const char *value)
{
    free(*setting);
    *setting = strdup(value);
}

static void open_ring(struct fixture *fixture)
{
    assert_int_equal(
        keyring_new(&fixture->config, fixture->callers, &fixture->keyring, &fixture->why), 0);
}

static int read_keys(struct fixture *fixture, const char *text, mode_t mode)
{
    _cleanup_close_ int fd = memfd_create("keys", MFD_CLOEXEC);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    return keyring_read(fixture->keyring, fd, &fixture->why);
}

static const char *name_of(const struct fixture *fixture, const char *key)
{
    const struct caller *caller = keyring_find(fixture->keyring, key);
    return caller ? caller->name : "";
}

static void test_no_keys(void **state)
{
    struct fixture *fixture = *state;
    open_ring(fixture);
    assert_false(config_has_keys(&fixture->config));
    assert_string_equal(name_of(fixture, ""), ADMIN_NAME);
    assert_string_equal(name_of(fixture, "whatever"), ADMIN_NAME);
    assert_true(keyring_find(fixture->keyring, "")->admin);
}

static void test_key_of_the_configuration(void **state)
{
    struct fixture *fixture = *state;
    set(&fixture->config.api_key, "a");
    open_ring(fixture);
    assert_string_equal(name_of(fixture, "a"), ADMIN_NAME);
    assert_string_equal(name_of(fixture, ""), "");
    assert_string_equal(name_of(fixture, "b"), "");
    assert_string_equal(name_of(fixture, HASH_A), "");
}

static void test_hash_of_the_configuration(void **state)
{
    struct fixture *fixture = *state;
    set(&fixture->config.api_key_hash, HASH_B);
    open_ring(fixture);
    assert_string_equal(name_of(fixture, "b"), ADMIN_NAME);
    assert_string_equal(name_of(fixture, "a"), "");
    struct keyring *none;
    set(&fixture->config.api_key_hash, "sha256:abc");
    assert_int_equal(keyring_new(&fixture->config, fixture->callers, &none, &fixture->why),
                     -EINVAL);
    set(&fixture->config.api_key_hash, HASH_B);
    set(&fixture->config.api_key, "a");
    assert_int_equal(keyring_new(&fixture->config, fixture->callers, &none, &fixture->why),
                     -EINVAL);
}

static void test_file(void **state)
{
    struct fixture *fixture = *state;
    set(&fixture->config.keys_file, "/a");
    set(&fixture->config.api_key, "c");
    open_ring(fixture);
    assert_int_equal(read_keys(fixture,
                               "# comment\n\n"
                               "alice user " HASH_A " sandboxes=3 burst=7\n"
                               "  \troot-2\tadmin " HASH_B " executions=0\r\n",
                               0600),
                     0);
    assert_int_equal(keyring_count(fixture->keyring), 3);
    const struct caller *alice = keyring_find(fixture->keyring, "a");
    assert_string_equal(alice->name, "alice");
    assert_false(alice->admin);
    assert_true(alice->keyed);
    assert_int_equal(alice->quotas.sandboxes, 3);
    assert_int_equal(alice->quotas.executions, fixture->config.quota_executions);
    assert_int_equal(alice->quotas.burst, 7);
    const struct caller *other = keyring_find(fixture->keyring, "b");
    assert_true(other->admin);
    assert_int_equal(other->quotas.sandboxes, 0);
    assert_string_equal(name_of(fixture, "c"), ADMIN_NAME);
}

static void test_empty_file_lets_nobody_in(void **state)
{
    struct fixture *fixture = *state;
    set(&fixture->config.keys_file, "/a");
    open_ring(fixture);
    assert_int_equal(read_keys(fixture, "", 0600), 0);
    assert_true(config_has_keys(&fixture->config));
    assert_string_equal(name_of(fixture, ""), "");
    assert_string_equal(name_of(fixture, "a"), "");
}

/* A key is replaced by another of the same owner while both work; one that is taken out works no more. */
static void test_rotation(void **state)
{
    struct fixture *fixture = *state;
    set(&fixture->config.keys_file, "/a");
    open_ring(fixture);
    assert_int_equal(read_keys(fixture, "alice user " HASH_A "\n", 0600), 0);
    const struct caller *alice = keyring_find(fixture->keyring, "a");
    assert_int_equal(read_keys(fixture, "alice user " HASH_A "\nalice user " HASH_B "\n", 0600), 0);
    assert_ptr_equal(keyring_find(fixture->keyring, "a"), alice);
    assert_ptr_equal(keyring_find(fixture->keyring, "b"), alice);
    assert_int_equal(read_keys(fixture, "alice user " HASH_B "\n", 0600), 0);
    assert_null(keyring_find(fixture->keyring, "a"));
    assert_ptr_equal(keyring_find(fixture->keyring, "b"), alice);
    assert_int_equal(read_keys(fixture, "bob admin " HASH_C "\n", 0600), 0);
    assert_null(keyring_find(fixture->keyring, "b"));
    assert_false(alice->keyed);
    assert_int_equal(read_keys(fixture, "bob user " HASH_C "\n", 0600), 0);
    assert_false(keyring_find(fixture->keyring, "c")->admin);
}

static void test_bad_files_change_nothing(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *text;
        const char *says;
    } bad[] = {
        {"alice\n", "line 1"},
        {"\n\nalice user\n", "line 3"},
        {"alice user " HASH_A "\nbob robot " HASH_B "\n", "line 2: the role"},
        {"al/ice user " HASH_A "\n", "the name"},
        {"admin user " HASH_A "\n", "role is"},
        {"alice user sha256:123\n", "the hash"},
        {"alice user md5:ca978112ca1bbdcafac231b39a23dc4d\n", "the hash"},
        {"alice user " HASH_A "00\n", "the hash"},
        {"alice user " HASH_A " sandboxes\n", "sandboxes"},
        {"alice user " HASH_A " sandboxes=-1\n", "sandboxes"},
        {"alice user " HASH_A " sandboxes=1000001\n", "sandboxes"},
        {"alice user " HASH_A " pets=1\n", "'pets'"},
        {"alice user " HASH_A "\nbob user " HASH_A "\n", "line 2: this key"},
        {"alice user " HASH_A "\nalice admin " HASH_B "\n", "another role"},
        {"alice user " HASH_A "\nalice user " HASH_B " burst=3\n", "other quotas"},
    };
    set(&fixture->config.keys_file, "/a");
    open_ring(fixture);
    assert_int_equal(read_keys(fixture, "carol user " HASH_C "\n", 0600), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        assert_int_equal(read_keys(fixture, bad[i].text, 0600), -EINVAL);
        if (!strstr(fixture->why.text, bad[i].says))
            fail_msg("'%s' does not say '%s'", fixture->why.text, bad[i].says);
        assert_string_equal(name_of(fixture, "c"), "carol");
        assert_string_equal(name_of(fixture, "a"), "");
    }
    static const mode_t open_to_others[] = {0640, 0604, 0620, 0602, 0666};
    for (size_t i = 0; i < ARRAY_LENGTH(open_to_others); i++) {
        assert_int_equal(read_keys(fixture, "", open_to_others[i]), -EACCES);
        assert_non_null(strstr(fixture->why.text, "chmod 600"));
    }
    assert_string_equal(name_of(fixture, "c"), "carol");
}

static void test_files_that_are_none(void **state)
{
    struct fixture *fixture = *state;
    open_ring(fixture);
    _cleanup_close_ int folder = open("/", O_RDONLY | O_CLOEXEC);
    assert_int_equal(keyring_read(fixture->keyring, folder, &fixture->why), -EINVAL);
    _cleanup_close_ int large = memfd_create("large", MFD_CLOEXEC);
    assert_int_equal(fchmod(large, 0600), 0);
    assert_int_equal(ftruncate(large, MAX_KEY_FILE_BYTES + 1), 0);
    assert_int_equal(keyring_read(fixture->keyring, large, &fixture->why), -EFBIG);
    assert_int_equal(ftruncate(large, 5), 0);
    assert_int_equal(keyring_read(fixture->keyring, large, &fixture->why), -EINVAL);
}

static void test_most_keys(void **state)
{
    struct fixture *fixture = *state;
    size_t size = (size_t)(MAX_KEYS + 1) * 128;
    _cleanup_free_ char *text = calloc(1, size);
    size_t used = 0;
    set(&fixture->config.keys_file, "/a");
    open_ring(fixture);
    for (int i = 0; i < MAX_KEYS; i++)
        used += (size_t)snprintf(text + used, size - used, "k%d user sha256:%064x\n", i, i + 1);
    assert_int_equal(read_keys(fixture, text, 0600), 0);
    assert_int_equal(keyring_count(fixture->keyring), MAX_KEYS);
    (void)snprintf(text + used, size - used, "alice user " HASH_A "\n");
    assert_int_equal(read_keys(fixture, text, 0600), -EINVAL);
}

/* What is made is what is understood. */
static void test_new_key(void **state)
{
    struct fixture *fixture = *state;
    char said[1024] = "", line[512] = "";
    FILE *key_out = fmemopen(said, sizeof said, "w"), *line_out = fmemopen(line, sizeof line, "w");
    assert_int_equal(keyring_make("alice", key_out, line_out, &fixture->why), 0);
    (void)fclose(key_out);
    (void)fclose(line_out);
    char *key = strstr(said, "husk_");
    assert_non_null(key);
    key[strcspn(key, "\n")] = '\0';
    assert_int_equal(strlen(key), strlen("husk_") + 43);
    assert_null(strstr(line, key));
    set(&fixture->config.keys_file, "/a");
    open_ring(fixture);
    assert_int_equal(read_keys(fixture, line, 0600), 0);
    assert_string_equal(name_of(fixture, key), "alice");
    assert_int_equal(keyring_make("al ice", stderr, stdout, &fixture->why), -EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_no_keys),
        TEST(test_key_of_the_configuration),
        TEST(test_hash_of_the_configuration),
        TEST(test_file),
        TEST(test_empty_file_lets_nobody_in),
        TEST(test_rotation),
        TEST(test_bad_files_change_nothing),
        TEST(test_files_that_are_none),
        TEST(test_most_keys),
        TEST(test_new_key),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
