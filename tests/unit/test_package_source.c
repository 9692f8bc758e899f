#include "unit.h"

#include <sys/stat.h>

#include "huskd/config.h"
#include "huskd/package_source.h"

static char folder[32];

static void clear_environment(void)
{
    static const char *const names[] = {
        "PIP_INDEX_URL",   "UV_DEFAULT_INDEX",   "UV_INDEX_URL",       "PIP_EXTRA_INDEX_URL",
        "UV_INDEX",        "UV_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST",   "UV_INSECURE_HOST",
        "PIP_CERT",        "SSL_CERT_FILE",      "REQUESTS_CA_BUNDLE", "PIP_PROXY",
        "HTTPS_PROXY",     "https_proxy",        "ALL_PROXY",          "all_proxy",
        "HTTP_PROXY",      "http_proxy",         "NO_PROXY",           "no_proxy",
        "XDG_CONFIG_HOME", "PIP_CONFIG_FILE"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        (void)unsetenv(names[i]);
    (void)setenv("HOME", folder, 1);
}

static void write_file(const char *name, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* What the fetcher would be told. */
static json_t *describe(const char *index, const char *extra)
{
    struct failure why;
    struct package_source *source = NULL;
    struct config config = {0};
    config_defaults(&config);
    free(config.package_index);
    free(config.package_extra_indexes);
    config.package_index = strdup(index);
    config.package_extra_indexes = strdup(extra);
    assert_int_equal(package_source_new(&config, &source, &why), 0);
    json_t *order = json_object();
    package_source_describe(source, order);
    package_source_free(source);
    config_free(&config);
    return order;
}

static void expect(const json_t *order, const char *key, const char *value)
{
    assert_string_equal(json_string_value(json_object_get(order, key)), value);
}

static void settings_come_first(void **state)
{
    (void)state;
    clear_environment();
    (void)setenv("PIP_INDEX_URL", "https://environment/simple", 1);
    (void)setenv("PIP_EXTRA_INDEX_URL", "https://more/simple", 1);
    json_t *order = describe("https://own/simple", "");
    expect(order, "index", "https://own/simple");
    assert_int_equal(json_array_size(json_object_get(order, "extra_indexes")), 0);
    json_decref(order);
    order = describe("", "");
    expect(order, "index", "https://environment/simple");
    assert_int_equal(json_array_size(json_object_get(order, "extra_indexes")), 1);
    json_decref(order);
    order = describe("", "https://a/simple, https://b/simple");
    assert_int_equal(json_array_size(json_object_get(order, "extra_indexes")), 2);
    json_decref(order);
}

static void pip_conf_is_read(void **state)
{
    (void)state;
    clear_environment();
    write_file("pip.conf", "[global]\nindex-url = https://user:pass@file/simple\nextra_index_url "
                           "=\n    https://x/simple\n"
                           "    https://y/simple\ntrusted-host = x y\nproxy = "
                           "http://proxy:3128\n[list]\nindex-url = https://no\n");
    char path[64];
    (void)snprintf(path, sizeof path, "%s/pip.conf", folder);
    (void)setenv("PIP_CONFIG_FILE", path, 1);
    (void)setenv("NO_PROXY", "localhost", 1);
    json_t *order = describe("", "");
    expect(order, "index", "https://user:pass@file/simple");
    assert_int_equal(json_array_size(json_object_get(order, "insecure_hosts")), 2);
    assert_int_equal(json_array_size(json_object_get(order, "extra_indexes")), 2);
    const json_t *environment = json_object_get(order, "environment");
    expect(environment, "HTTPS_PROXY", "http://proxy:3128");
    expect(environment, "NO_PROXY", "localhost");
    json_decref(order);
    (void)setenv("UV_INDEX_URL", "https://environment/simple", 1);
    order = describe("", "");
    expect(order, "index", "https://environment/simple");
    json_decref(order);
}

static void certificates(void **state)
{
    (void)state;
    clear_environment();
    char path[64];
    struct failure why;
    struct package_source *source = NULL;
    struct config config = {0};
    write_file("ca.pem", "a certificate");
    (void)snprintf(path, sizeof path, "%s/ca.pem", folder);
    (void)setenv("SSL_CERT_FILE", path, 1);
    json_t *order = describe("", "");
    expect(order, "certificates", "a certificate");
    json_decref(order);
    (void)setenv("SSL_CERT_FILE", "/nonexistent/ca.pem", 1);
    config_defaults(&config);
    assert_int_equal(package_source_new(&config, &source, &why), -ENOENT);
    assert_non_null(strstr(why.text, "/nonexistent/ca.pem"));
    config_free(&config);
}

static void secrets_are_hidden(void **state)
{
    (void)state;
    clear_environment();
    struct failure why;
    struct package_source *source = NULL;
    struct config config = {0};
    config_defaults(&config);
    free(config.package_index);
    free(config.package_extra_indexes);
    config.package_index = strdup("https://reader:s3cr3t-word@index/simple");
    config.package_extra_indexes = strdup("https://a/simple, https://token-only@b/simple");
    assert_int_equal(package_source_new(&config, &source, &why), 0);
    char text[] =
        "fetch https://reader:s3cr3t-word@index/simple/x and s3cr3t-word, https://token-only@b/";
    package_source_redact(source, text);
    assert_null(strstr(text, "s3cr3t"));
    assert_null(strstr(text, "token-only"));
    assert_non_null(strstr(text, "@index/simple/x and ***"));
    char plain[] = "https://a/simple is fine";
    package_source_redact(source, plain);
    assert_string_equal(plain, "https://a/simple is fine");
    package_source_free(source);
    config_free(&config);
}

static void the_cache_is_made(void **state)
{
    (void)state;
    struct failure why;
    struct stat status;
    struct config config = {0};
    char path[96];
    config_defaults(&config);
    (void)snprintf(path, sizeof path, "%s/deep/er/cache", folder);
    free(config.package_cache);
    config.package_cache = strdup(path);
    assert_int_equal(package_cache_make(&config, &why), 0);
    assert_int_equal(package_cache_make(&config, &why), 0);
    assert_int_equal(stat(path, &status), 0);
    if (geteuid() == 0)
        assert_int_equal(status.st_uid, config.id_base);
    config_free(&config);
}

static int make_folder(void **state)
{
    (void)state;
    make_directory(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[64];
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_come_first), cmocka_unit_test(pip_conf_is_read),
        cmocka_unit_test(certificates), cmocka_unit_test(secrets_are_hidden),
        cmocka_unit_test(the_cache_is_made)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
