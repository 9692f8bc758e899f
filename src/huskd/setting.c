#include "huskd/setting.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "husk/limits.h"
#include "huskd/config.h"
#include "huskd/listen_address.h"

static const char *const levels[] = {"debug", "info", "warning", "error", NULL};
static const char *const formats[] = {"auto", "text", "json", NULL};

#define AT(field) offsetof(struct config, field)

/* The 65536 ids from here on must be there, and below 2^31. */
enum {
    LOWEST_ID_BASE = 65536,
    HIGHEST_ID_BASE = INT32_MAX - 65536
};

const struct setting settings[] = {
    {"server", "listen", "listen", SETTING_ADDRESS, AT(listen), 0, 0, "127.0.0.1:8000", NULL,
     "address and port; other than loopback needs a key"},
    {"server", "api_key", "api-key", SETTING_SECRET, AT(api_key), 0, 0, "", NULL,
     "clients send it as 'Authorization: Bearer …' or 'X-API-Key: …'; empty: none"},
    {"server", "api_key_hash", "api-key-hash", SETTING_TEXT, AT(api_key_hash), 0, 0, "", NULL,
     "the same as its hash, 'sha256:…' (huskd --new-key admin makes both)"},
    {"server", "keys_file", "keys-file", SETTING_TEXT, AT(keys_file), 0, 0, "", NULL,
     "further keys, whose holders see only their own sandboxes; SIGHUP reads it anew"},
    {"server", "tls_cert", "tls-cert", SETTING_TEXT, AT(tls_cert), 0, 0, "", NULL,
     "certificate and its chain (PEM): then this is https, TLS 1.2 and 1.3; empty: http"},
    {"server", "tls_key", "tls-key", SETTING_TEXT, AT(tls_key), 0, 0, "", NULL,
     "its private key (PEM)"},
    {"server", "allowed_hosts", "allowed-hosts", SETTING_LIST, AT(allowed_hosts), 0, 0, "", NULL,
     "names clients may use for this server besides loopback, comma-separated; * = any"},
    {"server", "cors_origins", "cors-origins", SETTING_LIST, AT(cors_origins), 0, 0, "", NULL,
     "web origins that may call (https://app.example), comma-separated; * = any; empty: CORS off"},
    {"server", "stop_sandboxes", "stop-sandboxes", SETTING_SWITCH, AT(stop_sandboxes), 0, 0, "no",
     NULL, "end every sandbox when huskd is stopped, instead of leaving them for the next start"},

    {"limits", "max_sandboxes", "max-sandboxes", SETTING_NUMBER, AT(max_sandboxes), 0,
     MAX_SANDBOXES, "0", NULL, "live sandboxes; 0: as many as memory suggests"},
    {"limits", "max_creating", "max-creating", SETTING_NUMBER, AT(max_creating), 0, 256, "0", NULL,
     "sandboxes made at the same time; 0: two for each core"},
    {"limits", "memory_mb", "memory-mb", SETTING_NUMBER, AT(memory_mb.standard), MIN_MEMORY_MB,
     MAX_MEMORY_MB, "1024", NULL, "memory of a sandbox that does not ask"},
    {"limits", "max_memory_mb", "max-memory-mb", SETTING_NUMBER, AT(memory_mb.maximum),
     MIN_MEMORY_MB, MAX_MEMORY_MB, "8192", NULL, "the most it may ask for"},
    {"limits", "cpus", "cpus", SETTING_REAL, AT(cpus), 0.05, MAX_CPUS, "1.0", NULL,
     "cores of a sandbox that does not ask"},
    {"limits", "max_cpus", "max-cpus", SETTING_REAL, AT(max_cpus), 0.05, MAX_CPUS, "16", NULL,
     "the most it may ask for"},
    {"limits", "pids", "pids", SETTING_NUMBER, AT(pids.standard), MIN_PIDS, MAX_PIDS, "256", NULL,
     "processes and threads of a sandbox that does not ask"},
    {"limits", "max_pids", "max-pids", SETTING_NUMBER, AT(pids.maximum), MIN_PIDS, MAX_PIDS, "4096",
     NULL, "the most it may ask for"},
    {"limits", "disk_mb", "disk-mb", SETTING_NUMBER, AT(disk_mb.standard), MIN_DISK_MB, MAX_DISK_MB,
     "1024", NULL, "disk of a sandbox that does not ask"},
    {"limits", "max_disk_mb", "max-disk-mb", SETTING_NUMBER, AT(disk_mb.maximum), MIN_DISK_MB,
     MAX_DISK_MB, "8192", NULL, "the most it may ask for"},
    {"limits", "ttl_seconds", "ttl-seconds", SETTING_NUMBER, AT(ttl_seconds.standard),
     MIN_TTL_SECONDS, MAX_TTL_SECONDS, "86400", NULL, "life of a sandbox that does not ask"},
    {"limits", "max_ttl_seconds", "max-ttl-seconds", SETTING_NUMBER, AT(ttl_seconds.maximum),
     MIN_TTL_SECONDS, MAX_TTL_SECONDS, "2592000", NULL, "the most it may ask for"},
    {"limits", "idle_seconds", "idle-seconds", SETTING_NUMBER, AT(idle_seconds.standard), 0,
     MAX_TTL_SECONDS, "0", NULL, "close a sandbox nobody used for so long; 0: never"},
    {"limits", "max_idle_seconds", "max-idle-seconds", SETTING_NUMBER, AT(idle_seconds.maximum), 0,
     MAX_TTL_SECONDS, "2592000", NULL, "the most it may ask for"},
    {"limits", "timeout_seconds", "timeout-seconds", SETTING_NUMBER, AT(timeout_seconds.standard),
     1, MAX_TIMEOUT_SECONDS, "60", NULL, "time of an execution that does not ask"},
    {"limits", "max_timeout_seconds", "max-timeout-seconds", SETTING_NUMBER,
     AT(timeout_seconds.maximum), 1, MAX_TIMEOUT_SECONDS, "3600", NULL, "the most it may ask for"},
    {"limits", "link_seconds", "link-seconds", SETTING_NUMBER, AT(link_seconds), 1,
     MAX_LINK_SECONDS, "86400", NULL,
     "how long a link to a file works without the API key (never longer than its sandbox)"},
    {"limits", "no_limits", "no-limits", SETTING_SWITCH, AT(no_limits), 0, 0, "no", NULL,
     "run even where memory, cpu and pids limits cannot be had (not safe with strangers' code)"},

    {"quotas", "sandboxes", "quota-sandboxes", SETTING_NUMBER, AT(quota_sandboxes), 0, MAX_QUOTA,
     "20", NULL, "of a key of keys_file that is no admin's: sandboxes at a time; 0: no limit"},
    {"quotas", "executions", "quota-executions", SETTING_NUMBER, AT(quota_executions), 0, MAX_QUOTA,
     "20", NULL, "executions and commands at a time, in all its sandboxes; 0: no limit"},
    {"quotas", "requests_per_second", "quota-requests", SETTING_NUMBER, AT(quota_requests), 0,
     MAX_QUOTA, "50", NULL, "requests; 0: no limit"},
    {"quotas", "burst", "quota-burst", SETTING_NUMBER, AT(quota_burst), 0, MAX_QUOTA, "0", NULL,
     "requests at once, after a while of silence; 0: two seconds' worth"},

    {"pool", "size", "pool", SETTING_NUMBER, AT(pool_size), 0, MAX_POOL_SIZE, "4", NULL,
     "sandboxes that wait, ready, for the next who create one; 0: none"},
    {"pool", "memory_mb", "pool-memory-mb", SETTING_NUMBER, AT(pool_memory_mb), 0, MAX_MEMORY_MB,
     "0", NULL, "memory for them, of which each counts as 64; 0: a tenth of the machine's"},

    {"packages", "enabled", "packages", SETTING_SWITCH, AT(packages), 0, 0, "yes", NULL,
     "whether sandboxes can have packages installed"},
    {"packages", "index_url", "package-index", SETTING_SECRET, AT(package_index), 0, 0, "", NULL,
     "package index; empty: that of this machine's pip or uv (PIP_INDEX_URL, UV_…, pip.conf)"},
    {"packages", "extra_index_urls", "package-extra-indexes", SETTING_SECRET,
     AT(package_extra_indexes), 0, 0, "", NULL,
     "further indexes, comma-separated; the first index that has a package decides, these before "
     "index_url"},
    {"packages", "proxy", "package-proxy", SETTING_SECRET, AT(package_proxy), 0, 0, "", NULL,
     "proxy on the way to them; empty: that of the environment (HTTPS_PROXY, …)"},
    {"packages", "no_proxy", "package-no-proxy", SETTING_TEXT, AT(package_no_proxy), 0, 0, "", NULL,
     "hosts to reach without it, comma-separated"},
    {"packages", "trusted_hosts", "package-trusted-hosts", SETTING_LIST, AT(package_trusted_hosts),
     0, 0, "", NULL, "hosts whose certificate is not checked, comma-separated"},
    {"packages", "ca_bundle", "package-ca", SETTING_TEXT, AT(package_ca), 0, 0, "", NULL,
     "file with the certificates to trust; empty: that of pip, of the environment, of the system"},
    {"packages", "allow", "package-allow", SETTING_LIST, AT(package_allow), 0, 0, "", NULL,
     "packages that may be asked for, comma-separated, with * for any text; empty: all"},
    {"packages", "deny", "package-deny", SETTING_LIST, AT(package_deny), 0, 0, "", NULL,
     "packages that are never installed, not even for another one"},
    {"packages", "cache", "package-cache", SETTING_TEXT, AT(package_cache), 0, 0, NULL, NULL,
     "directory of fetched packages, shared by all sandboxes"},
    {"packages", "cache_mb", "package-cache-mb", SETTING_NUMBER, AT(package_cache_mb), 16,
     MAX_DISK_MB, "10240", NULL, "size of it; the packages used longest ago are removed"},
    {"packages", "max_download_mb", "package-max-mb", SETTING_NUMBER, AT(package_max_mb), 1,
     MAX_DISK_MB, "4096", NULL, "the most that one install may download"},
    {"packages", "timeout_seconds", "package-timeout-seconds", SETTING_NUMBER, AT(package_seconds),
     1, MAX_TIMEOUT_SECONDS, "600", NULL, "time for fetching, and as much for installing"},

    {"paths", "state", "state", SETTING_TEXT, AT(state), 0, 0, NULL, NULL,
     "directory of sockets and locks of the running service"},
    {"paths", "image", "image", SETTING_TEXT, AT(image), 0, 0, NULL, NULL,
     "kernel image, as made by `make image`"},
    {"paths", "id_base", "id-base", SETTING_NUMBER, AT(id_base), LOWEST_ID_BASE, HIGHEST_ID_BASE,
     "2000000000", NULL, "when started by root: first of 65536 user ids that belong to Husk alone"},

    {"logging", "level", "log-level", SETTING_CHOICE, AT(log_level), 0, 0, "info", levels,
     "least important events to log"},
    {"logging", "format", "log-format", SETTING_CHOICE, AT(log_format), 0, 0, "auto", formats,
     "auto: text on a terminal, JSON otherwise"},
};
const size_t settings_count = ARRAY_LENGTH(settings);

const struct setting *setting_by_key(const char *section, const char *key)
{
    for (size_t i = 0; i < settings_count; i++) {
        if (!strcmp(settings[i].section, section) && !strcmp(settings[i].key, key))
            return &settings[i];
    }
    return NULL;
}

const struct setting *setting_by_name(const char *name)
{
    for (size_t i = 0; i < settings_count; i++) {
        if (settings[i].type != SETTING_SECRET && !strcmp(settings[i].name, name))
            return &settings[i];
    }
    return NULL;
}

void setting_variable(const struct setting *setting, char text[SETTING_VARIABLE_SIZE])
{
    (void)snprintf(text, SETTING_VARIABLE_SIZE, "HUSK_%s", setting->name);
    for (char *p = text; *p; p++)
        *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
}

static void *place(struct config *config, const struct setting *setting)
{
    return (char *)config + setting->offset;
}

static const void *place_of(const struct config *config, const struct setting *setting)
{
    return (const char *)config + setting->offset;
}

static void list_choices(const struct setting *setting, char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; setting->choices[i]; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, size - used, "%s%s", i ? ", " : "", setting->choices[i]);
    }
}

static int set_choice(struct config *config, const struct setting *setting, const char *value,
                      struct failure *why)
{
    for (int i = 0; setting->choices[i]; i++) {
        if (same_ignoring_case(value, setting->choices[i])) {
            *(int *)place(config, setting) = i;
            return 0;
        }
    }
    char known[96];
    list_choices(setting, known, sizeof known);
    return fail_plain(why, EINVAL, "must be one of %s, not '%.40s'", known, value);
}

static int set_number(struct config *config, const struct setting *setting, const char *value,
                      struct failure *why)
{
    int r;
    if (setting->type == SETTING_REAL)
        r = parse_double(value, setting->minimum, setting->maximum, place(config, setting));
    else
        r = parse_u64(value, (uint64_t)setting->minimum, (uint64_t)setting->maximum,
                      place(config, setting));
    if (r < 0)
        return fail_plain(why, EINVAL, "must be a %snumber from %.12g to %.12g, not '%.40s'",
                          setting->type == SETTING_REAL ? "" : "whole ", setting->minimum,
                          setting->maximum, value);
    return 0;
}

static void set_text(struct config *config, const struct setting *setting, const char *value)
{
    char **text = place(config, setting);
    free(*text);
    *text = must_copy(value);
}

int setting_set(struct config *config, const struct setting *setting, const char *value,
                struct failure *why)
{
    switch (setting->type) {
    case SETTING_ADDRESS: {
        int r = listen_address_check(value, why);
        if (r < 0)
            return r;
        set_text(config, setting, value);
        return 0;
    }
    case SETTING_TEXT:
    case SETTING_LIST:
    case SETTING_SECRET:
        set_text(config, setting, value);
        return 0;
    case SETTING_SWITCH:
        if (parse_bool(value, place(config, setting)) < 0)
            return fail_plain(why, EINVAL, "must be yes or no, not '%.40s'", value);
        return 0;
    case SETTING_CHOICE:
        return set_choice(config, setting, value, why);
    case SETTING_NUMBER:
    case SETTING_REAL:
        return set_number(config, setting, value, why);
    }
    return fail(why, EINVAL, "setting %s", setting->key);
}

void setting_add(struct config *config, const struct setting *setting, const char *value)
{
    husk_assert(setting->type == SETTING_LIST);
    _cleanup_free_ char *longer = must_format("%s, %s", *(char **)place(config, setting), value);
    set_text(config, setting, longer);
}

void setting_list_keys(const char *section, char *text, size_t size)
{
    bool known = false;
    for (size_t i = 0; i < settings_count; i++)
        known = known || !strcmp(settings[i].section, section);
    text[0] = '\0';
    for (size_t i = 0; i < settings_count; i++) {
        bool listed = known ? !strcmp(settings[i].section, section)
                            : i == 0 || strcmp(settings[i].section, settings[i - 1].section) != 0;
        size_t used = strlen(text);
        if (listed)
            (void)snprintf(text + used, size - used, known ? "%s%s" : "%s[%s]", used ? ", " : "",
                           known ? settings[i].key : settings[i].section);
    }
}

static void format_value(const struct config *config, const struct setting *setting, char *text,
                         size_t size)
{
    const void *value = place_of(config, setting);
    switch (setting->type) {
    case SETTING_TEXT:
    case SETTING_LIST:
    case SETTING_ADDRESS:
        (void)snprintf(text, size, "%s", *(char *const *)value);
        break;
    case SETTING_SECRET:
        text[0] = '\0';
        break;
    case SETTING_NUMBER:
        (void)snprintf(text, size, "%llu", (unsigned long long)*(const uint64_t *)value);
        break;
    case SETTING_REAL:
        (void)snprintf(text, size, "%g", *(const double *)value);
        break;
    case SETTING_SWITCH:
        (void)snprintf(text, size, "%s", *(const bool *)value ? "yes" : "no");
        break;
    case SETTING_CHOICE:
        (void)snprintf(text, size, "%s", setting->choices[*(const int *)value]);
        break;
    }
}

static void print_flag(const struct setting *setting, FILE *out)
{
    static const char *const arguments[] = {
        [SETTING_TEXT] = " TEXT",   [SETTING_LIST] = " WORDS", [SETTING_ADDRESS] = " ADDRESS:PORT",
        [SETTING_NUMBER] = " N",    [SETTING_REAL] = " N",     [SETTING_SWITCH] = "",
        [SETTING_CHOICE] = " WORD",
    };
    char variable[SETTING_VARIABLE_SIZE];
    setting_variable(setting, variable);
    if (setting->type == SETTING_SECRET)
        (void)fprintf(out, "  %s (environment or husk.conf only)\n", variable);
    else
        (void)fprintf(out, "  --%s%s\n", setting->name, arguments[setting->type]);
    (void)fprintf(out, "      %s", setting->help);
    if (setting->choices) {
        char choices[64];
        list_choices(setting, choices, sizeof choices);
        (void)fprintf(out, "; one of %s", choices);
    }
    if (setting->standard && *setting->standard)
        (void)fprintf(out, " (default %s)", setting->standard);
    (void)fprintf(out, "\n      [%s] %s, %s\n", setting->section, setting->key, variable);
}

void setting_print_help(FILE *out)
{
    (void)fputs(
        "Usage: huskd [options]\n\n"
        "  --config FILE\n      configuration (default /etc/husk/husk.conf, if it is there); "
        "HUSK_CONFIG\n"
        "  --check\n      check configuration and image, then exit\n"
        "  --print-config\n      print the configuration in effect as a husk.conf, then exit\n"
        "  --version, --help\n\n"
        "Every setting can be given as a flag, as an environment variable, or in husk.conf; "
        "flags win.\n\n",
        out);
    for (size_t i = 0; i < settings_count; i++)
        print_flag(&settings[i], out);
}

void setting_print_config(const struct config *config, FILE *out)
{
    for (size_t i = 0; i < settings_count; i++) {
        const struct setting *setting = &settings[i];
        if (i == 0 || strcmp(setting->section, settings[i - 1].section) != 0)
            (void)fprintf(out, "%s[%s]\n", i ? "\n" : "", setting->section);
        char value[4200];
        format_value(config, setting, value, sizeof value);
        if (setting->type == SETTING_SECRET)
            (void)fprintf(out, "; %s is %s\n", setting->key,
                          **(char *const *)place_of(config, setting) ? "set" : "not set");
        else
            (void)fprintf(out, "%s = %s\n", setting->key, value);
    }
}
