/* Configuration: files, environment, flags, and the sentences for what is wrong. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "huskd/config.h"
#include "huskd/setting.h"

static char path[] = "/tmp/husk-test-config-XXXXXX";

static void write_config(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static int load(struct config *config, struct failure *why, const char *const *flags)
{
    static char program[] = "huskd", flag[] = "--config";
    char *argv[16] = {program, flag, path};
    int argc = 3;
    for (; *flags; flags++)
        argv[argc++] = (char *)(uintptr_t)*flags;
    return config_load(config, argc, argv, why);
}

static void refused(const char *text, const char *part)
{
    struct config config = {0};
    struct failure why = {0};
    write_config(text);
    assert_true(load(&config, &why, (const char *const[]){NULL}) < 0);
    if (!strstr(why.text, part))
        fail_msg("'%s' does not contain '%s'", why.text, part);
    config_free(&config);
}

static void test_defaults(void **state)
{
    (void)state;
    struct config config = {0};
    struct failure why;
    write_config("");
    assert_int_equal(load(&config, &why, (const char *const[]){NULL}), 0);
    assert_string_equal(config.listen, "127.0.0.1:8000");
    assert_string_equal(config.api_key, "");
    assert_int_equal(config.memory_mb.standard, 1024);
    assert_int_equal(config.ttl_seconds.standard, 86400);
    assert_int_equal(config.link_seconds, 86400);
    assert_true(config.cpus == 1.0);
    assert_true(config.max_sandboxes >= 4 && config.max_creating >= 2);
    assert_int_equal(config.log_level, LOG_INFO);
    assert_false(config.stop_sandboxes || config.no_limits);
    config_free(&config);
}

static void test_file(void **state)
{
    (void)state;
    struct config config = {0};
    struct failure why;
    write_config("; comment\n# comment\n[server]\nlisten = [::1]:9000\napi_key = a b;c ; comment\n"
                 "[limits]\nmemory_mb=64\ncpus = 0.5\n\n[logging]\nlevel = WARNING\n[server]\n"
                 "stop_sandboxes = on\n");
    int r = load(&config, &why, (const char *const[]){NULL});
    if (r < 0)
        fail_msg("%s", why.text);
    assert_string_equal(config.listen, "[::1]:9000");
    assert_string_equal(config.api_key, "a b;c");
    assert_int_equal(config.memory_mb.standard, 64);
    assert_true(config.cpus == 0.5);
    assert_int_equal(config.log_level, LOG_WARNING);
    assert_true(config.stop_sandboxes);
    config_free(&config);
}

static void test_mistakes_name_file_and_line(void **state)
{
    (void)state;
    char place[64];
    (void)snprintf(place, sizeof place, "%s:3: ", path);
    refused("[server]\nlisten = 127.0.0.1:8000\nlisen = x\n", place);
    refused("[server]\n\nlisen = x\n", "known: listen, api_key");
    refused("[limits]\n\nfrob = 1\n", "is not a key of [limits]");
    refused("[nowhere]\n\nfrob = 1\n", "known: [server], [limits]");
    refused("\n[limits]\nmemory_mb = lots\n", "must be a whole number from 64 to 1048576");
    refused("\n[limits]\nmemory_mb = lots\n", place);
    refused("\n[limits]\nmemory_mb = 63\n", place);
    refused("\n[limits]\nmax_sandboxes = -1\n", place);
    refused("\n[limits]\nlink_seconds = 0\n", "must be a whole number from 1 to 31536000");
    refused("\n[limits]\ncpus = nan\n", "must be a number from");
    refused("\n[logging]\nlevel = loud\n", "must be one of debug, info, warning, error");
    refused("\n[limits]\nno_limits = maybe\n", "must be yes or no");
    refused("\n[server]\nlisten = 8000\n", "must be address:port");
    refused("\n[server]\nlisten = ::1:8000\n", "brackets");
    refused("\n[server]\nlisten = 127.0.0.1:65536\n", place);
    refused("[server]\nlisten = 127.0.0.1:1\nlisten = 127.0.0.1:2\n", "already set on line 2");
    refused("[server]\n\nno equals sign\n", place);
    refused("listen = 127.0.0.1:8000\n", ":1: ");
}

static void test_long_line(void **state)
{
    (void)state;
    char text[5000] = "[server]\nallowed_hosts = ";
    memset(text + strlen(text), 'x', 4500);
    refused(text, ":2: the line is too long");
}

static void test_list_in_several_lines(void **state)
{
    (void)state;
    struct config config = {0};
    struct failure why;
    write_config(
        "[server]\nallowed_hosts = a.example,\n    b.example\nallowed_hosts = c.example\n");
    assert_int_equal(load(&config, &why, (const char *const[]){NULL}), 0);
    assert_string_equal(config.allowed_hosts, "a.example,, b.example, c.example");
    config_free(&config);
}

static void test_contradictions(void **state)
{
    (void)state;
    refused("[limits]\nmemory_mb = 2048\nmax_memory_mb = 1024\n", "larger than max_memory_mb");
    refused("[limits]\ncpus = 4\nmax_cpus = 2\n", "larger than max_cpus");
    refused(
        "[paths]\nstate = /a/path/that/is/much/too/long/for/the/sockets/of/sandboxes/to/live/in\n",
        "too long");
}

static void test_missing_file(void **state)
{
    (void)state;
    struct config config = {0};
    struct failure why;
    config_defaults(&config);
    assert_int_equal(config_read_file(&config, "/nonexistent/husk.conf", &why), -ENOENT);
    assert_non_null(strstr(why.text, "/nonexistent/husk.conf"));
    config_free(&config);
}

static void test_precedence(void **state)
{
    (void)state;
    struct config config = {0};
    struct failure why;
    write_config("[limits]\npids = 100\ndisk_mb = 100\nmax_disk_mb = 2000\nttl_seconds = 100\n");
    setenv("HUSK_DISK_MB", "200", 1);
    setenv("HUSK_TTL_SECONDS", "200", 1);
    setenv("HUSK_IDLE_SECONDS", "", 1);
    assert_int_equal(load(&config, &why,
                          (const char *const[]){"--ttl-seconds", "300", "--no-limits",
                                                "--log-format=json", NULL}),
                     0);
    assert_int_equal(config.pids.standard, 100);
    assert_int_equal(config.disk_mb.standard, 200);
    assert_int_equal(config.ttl_seconds.standard, 300);
    assert_int_equal(config.idle_seconds.standard, 0);
    assert_true(config.no_limits);
    assert_int_equal(config.log_format, LOG_FORMAT_JSON);
    config_free(&config);
    setenv("HUSK_DISK_MB", "much", 1);
    assert_true(load(&config, &why, (const char *const[]){NULL}) < 0);
    assert_non_null(strstr(why.text, "HUSK_DISK_MB must be"));
    config_free(&config);
    unsetenv("HUSK_DISK_MB");
    unsetenv("HUSK_TTL_SECONDS");
    unsetenv("HUSK_IDLE_SECONDS");
}

static void test_flags(void **state)
{
    (void)state;
    static const struct {
        const char *flags[3];
        const char *part;
    } bad[] = {
        {{"--frobnicate", NULL}, "unknown flag --frobnicate"},
        {{"--listen", NULL}, "--listen needs a value"},
        {{"--pids", "x", NULL}, "--pids must be"},
        {{"word", NULL}, "'word' is not a flag"},
        {{"--api-key=x", NULL}, "unknown flag --api-key"},
        {{"--", NULL}, "is not a flag"},
    };
    write_config("");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct config config = {0};
        struct failure why = {0};
        assert_true(load(&config, &why, bad[i].flags) < 0);
        if (!strstr(why.text, bad[i].part))
            fail_msg("'%s' does not contain '%s'", why.text, bad[i].part);
        config_free(&config);
    }
    struct config config = {0};
    struct failure why;
    assert_int_equal(load(&config, &why, (const char *const[]){"--check", NULL}), 0);
    assert_int_equal(config.action, CONFIG_CHECK);
    config_free(&config);
}

static void test_relative_paths(void **state)
{
    (void)state;
    struct config config = {0};
    struct failure why;
    write_config("");
    assert_int_equal(load(&config, &why, (const char *const[]){"--image", "here", NULL}), 0);
    assert_int_equal(config.image[0], '/');
    assert_non_null(strstr(config.image, "/here"));
    config_free(&config);
}

/* What is printed can be read again, and says the same; the key is not in it. */
static void test_print(void **state)
{
    (void)state;
    char *texts[2] = {NULL, NULL};
    struct failure why;
    write_config("[server]\napi_key = correct-horse\n[limits]\ncpus = 2.5\nmax_sandboxes = 7\n");
    for (int i = 0; i < 2; i++) {
        struct config config = {0};
        size_t size;
        assert_int_equal(load(&config, &why, (const char *const[]){NULL}), 0);
        FILE *out = open_memstream(&texts[i], &size);
        setting_print_config(&config, out);
        assert_int_equal(fclose(out), 0);
        config_free(&config);
        write_config(texts[i]);
    }
    assert_null(strstr(texts[0], "correct-horse"));
    assert_non_null(strstr(texts[0], "max_sandboxes = 7"));
    /* All but the line that says whether there is a key. */
    assert_string_equal(strstr(texts[0], "allowed_hosts"), strstr(texts[1], "allowed_hosts"));
    free(texts[0]);
    free(texts[1]);
}

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_mistakes_name_file_and_line),
        cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_list_in_several_lines),
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_missing_file),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_relative_paths),
        cmocka_unit_test(test_print),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
