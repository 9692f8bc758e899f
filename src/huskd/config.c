#include "huskd/config.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/id.h"
#include "base/memory.h"
#include "base/text.h"
#include "husk/keeper_protocol.h"
#include "husk/limits.h"
#include "huskd/setting.h"

#define DEFAULT_FILE "/etc/husk/husk.conf"

enum {
    UNIX_PATH_BYTES = 107,
    POOL_FRACTION = 10, /* of the machine's memory */
    FEWEST_AUTOMATIC = 4,
    MOST_AUTOMATIC = 1000
};

extern char **environ;

/* --- defaults -----------------------------------------------------------------------------------
 */

static char *default_state(void)
{
    if (geteuid() == 0)
        return must_copy("/run/husk");
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (runtime && *runtime)
        return must_format("%s/husk", runtime);
    return must_format("/run/user/%u/husk", (unsigned)geteuid());
}

static char *default_image(void)
{
    if (geteuid() == 0)
        return must_copy("/var/lib/husk/images/default");
    const char *data = getenv("XDG_DATA_HOME");
    if (data && *data)
        return must_format("%s/husk/images/default", data);
    const char *home = getenv("HOME");
    return must_format("%s/.local/share/husk/images/default", home ? home : "");
}

static char *default_cache(void)
{
    if (geteuid() == 0)
        return must_copy("/var/lib/husk/cache");
    const char *cache = getenv("XDG_CACHE_HOME");
    if (cache && *cache)
        return must_format("%s/husk", cache);
    const char *home = getenv("HOME");
    return must_format("%s/.cache/husk", home ? home : "");
}

void config_defaults(struct config *config)
{
    for (size_t i = 0; i < settings_count; i++) {
        if (settings[i].standard) {
            int r = setting_set(config, &settings[i], settings[i].standard, NULL);
            husk_assert(r == 0);
        }
    }
    config->state = default_state();
    config->image = default_image();
    config->package_cache = default_cache();
}

/* Zero means "you choose": done last, so that --print-config shows what was chosen. */
static void choose_automatic(struct config *config)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (config->max_creating == 0)
        config->max_creating = cores > 0 ? (uint64_t)cores * 2 : 2;
    struct sysinfo machine;
    uint64_t memory_mb = 0;
    if (sysinfo(&machine) == 0)
        memory_mb = (uint64_t)machine.totalram * machine.mem_unit / MIB;
    if (config->max_sandboxes == 0) {
        uint64_t fit = memory_mb / MEMORY_PER_SANDBOX_MB;
        if (fit < FEWEST_AUTOMATIC)
            fit = FEWEST_AUTOMATIC;
        config->max_sandboxes = fit > MOST_AUTOMATIC ? MOST_AUTOMATIC : fit;
    }
    if (config->pool_memory_mb == 0)
        config->pool_memory_mb = memory_mb / POOL_FRACTION;
}

/* --- husk.conf ----------------------------------------------------------------------------------
 */

struct reading {
    struct config *config;
    const char *path;
    FILE *file;
    int line;
    bool too_long;
    int seen[128]; /* line on which a setting was given, by its place in the table */
    int result;    /* of the first mistake */
    struct failure *why;
};

/* inih does not tell the line to its callback in every build, so we count what we hand to it. */
static char *next_line(char *text, int size, void *user)
{
    struct reading *reading = user;
    char *got = fgets(text, size, reading->file);
    if (!got)
        return NULL;
    reading->line++;
    size_t length = strlen(text);
    if (length == (size_t)size - 1 && text[length - 1] != '\n' && !feof(reading->file))
        reading->too_long = true;
    return reading->too_long ? NULL : got;
}

/* inih goes on after a mistake; only the first is told. */
static int complain(struct reading *reading, const char *key, const char *text)
{
    if (reading->result == 0)
        reading->result = fail_plain(reading->why, EINVAL, "%s:%d: '%.32s' %s", reading->path,
                                     reading->line, key, text);
    return 0;
}

static int complain_unknown(struct reading *reading, const char *section, const char *key)
{
    char known[512];
    setting_list_keys(section, known, sizeof known);
    char text[256];
    if (format_text(text, 160, "is not a key of [%.32s]; known: %s", section, known) < 0)
        (void)format_text(text, sizeof text, "is not a key of [%.32s]; see huskd --help", section);
    return complain(reading, key, text);
}

static int take_pair(void *user, const char *section, const char *key, const char *value)
{
    struct reading *reading = user;
    const struct setting *setting = setting_by_key(section, key);
    if (!setting)
        return complain_unknown(reading, section, key);
    size_t index = (size_t)(setting - settings);
    husk_assert(index < ARRAY_LENGTH(reading->seen));
    if (reading->seen[index] && setting->type == SETTING_LIST) {
        setting_add(reading->config, setting, value);
        return 1;
    }
    if (reading->seen[index]) {
        char text[64];
        (void)format_text(text, sizeof text, "was already set on line %d", reading->seen[index]);
        return complain(reading, key, text);
    }
    reading->seen[index] = reading->line;
    struct failure why;
    if (setting_set(reading->config, setting, value, &why) < 0)
        return complain(reading, key, why.text);
    return 1;
}

int config_read_file(struct config *config, const char *path, struct failure *why)
{
    struct reading reading = {.config = config, .path = path, .why = why};
    reading.file = fopen(path, "re");
    if (!reading.file)
        return fail(why, errno, "configuration %s", path);
    int bad_line = ini_parse_stream(next_line, &reading, take_pair, &reading);
    (void)fclose(reading.file);
    if (reading.result < 0)
        return reading.result;
    if (reading.too_long)
        return fail_plain(
            why, EINVAL, "%s:%d: the line is too long; a list may go on in the next line, indented",
            path, reading.line);
    if (bad_line > 0)
        return fail_plain(why, EINVAL, "%s:%d: expected 'key = value' or '[section]'", path,
                          bad_line);
    return bad_line < 0 ? fail(why, ENOMEM, "configuration %s", path) : 0;
}

/* --- environment --------------------------------------------------------------------------------
 */

static bool known_variable(const char *entry)
{
    static const char *const others[] = {"HUSK_CONFIG="};
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++) {
        if (starts_with(entry, others[i]))
            return true;
    }
    for (size_t i = 0; i < settings_count; i++) {
        char variable[SETTING_VARIABLE_SIZE];
        setting_variable(&settings[i], variable);
        size_t length = strlen(variable);
        if (starts_with(entry, variable) && entry[length] == '=')
            return true;
    }
    return false;
}

static int read_environment(struct config *config, struct failure *why)
{
    for (size_t i = 0; i < settings_count; i++) {
        char variable[SETTING_VARIABLE_SIZE];
        setting_variable(&settings[i], variable);
        const char *value = getenv(variable);
        if (!value || !*value)
            continue;
        struct failure reason;
        if (setting_set(config, &settings[i], value, &reason) < 0)
            return fail_plain(why, EINVAL, "environment variable %s %s", variable, reason.text);
    }
    /* Not an error: other tools may use the prefix. But a mistyped HUSK_API_KEY should not go
     * unnoticed. */
    for (char **entry = environ; entry && *entry; entry++) {
        if (starts_with(*entry, "HUSK_") && !known_variable(*entry))
            log_line(LOG_WARNING, "environment variable %.*s is not a setting and has no effect",
                     (int)strcspn(*entry, "="), *entry);
    }
    return 0;
}

/* --- flags --------------------------------------------------------------------------------------
 */

struct command_line {
    int argc;
    char **argv;
    int at;
    char name[64];
    const char *value; /* after "=", or NULL */
};

static const struct {
    const char *flag;
    enum config_action action;
} actions[] = {
    {"check", CONFIG_CHECK},
    {"print-config", CONFIG_PRINT},
    {"help", CONFIG_HELP},
    {"version", CONFIG_VERSION},
};

/* The next flag into name and value: 1, 0 at the end, -EINVAL for a word that is no flag. */
static int next_flag(struct command_line *line, struct failure *why)
{
    if (line->at >= line->argc)
        return 0;
    const char *word = line->argv[line->at++];
    if (!strcmp(word, "-h"))
        word = "--help";
    if (!starts_with(word, "--") || !word[2])
        return fail_plain(why, EINVAL, "'%.60s' is not a flag; see huskd --help", word);
    line->value = strchr(word, '=');
    size_t length = line->value ? (size_t)(line->value++ - word) : strlen(word);
    (void)snprintf(line->name, sizeof line->name, "%.*s", (int)(length - 2), word + 2);
    return 1;
}

static int flag_value(struct command_line *line, struct failure *why)
{
    if (!line->value && line->at < line->argc)
        line->value = line->argv[line->at++];
    if (!line->value)
        return fail_plain(why, EINVAL, "--%s needs a value; see huskd --help", line->name);
    return 0;
}

static int apply_flag(struct config *config, struct command_line *line, const char **file,
                      struct failure *why)
{
    for (size_t i = 0; i < ARRAY_LENGTH(actions); i++) {
        if (!strcmp(line->name, actions[i].flag)) {
            config->action = actions[i].action;
            return 0;
        }
    }
    if (!strcmp(line->name, "new-key")) {
        config->action = CONFIG_NEW_KEY;
        int r = flag_value(line, why);
        config->new_key = line->value;
        return r;
    }
    if (!strcmp(line->name, "config")) {
        int r = flag_value(line, why);
        *file = line->value;
        return r;
    }
    const struct setting *setting = setting_by_name(line->name);
    if (!setting)
        return fail_plain(why, EINVAL, "unknown flag --%s; see huskd --help", line->name);
    if (setting->type == SETTING_SWITCH && !line->value)
        line->value = "yes";
    int r = flag_value(line, why);
    if (r < 0)
        return r;
    struct failure reason;
    if (setting_set(config, setting, line->value, &reason) < 0)
        return fail_plain(why, EINVAL, "--%s %s", line->name, reason.text);
    return 0;
}

/* Flags are read twice: first to learn which file to read, then, on top of it, for what they set.
 */
static int read_flags(struct config *config, int argc, char **argv, const char **file,
                      struct failure *why)
{
    struct command_line line = {.argc = argc, .argv = argv, .at = 1};
    int r;
    while ((r = next_flag(&line, why)) > 0) {
        r = apply_flag(config, &line, file, why);
        if (r < 0)
            return r;
    }
    return r;
}

/* --- all together -------------------------------------------------------------------------------
 */

static int check_range(const char *key, double standard, double maximum, struct failure *why)
{
    if (standard <= maximum)
        return 0;
    return fail_plain(why, EINVAL, "[limits] %s (%g) is larger than max_%s (%g)", key, standard,
                      key, maximum);
}

int config_check(const struct config *config, struct failure *why)
{
    const struct {
        const char *key;
        double standard, maximum;
    } ranges[] = {
        {"memory_mb", (double)config->memory_mb.standard, (double)config->memory_mb.maximum},
        {"cpus", config->cpus, config->max_cpus},
        {"pids", (double)config->pids.standard, (double)config->pids.maximum},
        {"disk_mb", (double)config->disk_mb.standard, (double)config->disk_mb.maximum},
        {"ttl_seconds", (double)config->ttl_seconds.standard, (double)config->ttl_seconds.maximum},
        {"idle_seconds", (double)config->idle_seconds.standard,
         (double)config->idle_seconds.maximum},
        {"timeout_seconds", (double)config->timeout_seconds.standard,
         (double)config->timeout_seconds.maximum},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(ranges); i++) {
        int r = check_range(ranges[i].key, ranges[i].standard, ranges[i].maximum, why);
        if (r < 0)
            return r;
    }
    if (config->state[0] != '/' || config->image[0] != '/')
        return fail_plain(why, EINVAL, "state and image must be absolute paths, not '%.80s'",
                          config->state[0] != '/' ? config->state : config->image);
    if (!*config->tls_cert != !*config->tls_key)
        return fail_plain(why, EINVAL, "tls_cert and tls_key go together: one of them is missing");
    size_t longest = strlen(config->state) + strlen("/" SHIM_SOCKET_DIR "/") + ID_TEXT_SIZE - 1;
    if (longest > UNIX_PATH_BYTES)
        return fail_plain(why, ENAMETOOLONG,
                          "the state directory's path is too long for sockets: at most %zu "
                          "characters, '%.80s…' has %zu",
                          UNIX_PATH_BYTES - (longest - strlen(config->state)), config->state,
                          strlen(config->state));
    return 0;
}

/* Flags and files may name a directory relative to where huskd was started. */
static void make_absolute(char **path)
{
    if ((*path)[0] == '/' || (*path)[0] == '\0')
        return;
    _cleanup_free_ char *here = getcwd(NULL, 0);
    if (!here)
        return;
    char *whole = must_format("%s/%s", here, *path);
    free(*path);
    *path = whole;
}

int config_load(struct config *config, int argc, char **argv, struct failure *why)
{
    *config = (struct config){.action = CONFIG_RUN};
    config_defaults(config);
    const char *file = getenv("HUSK_CONFIG");
    int r = read_flags(config, argc, argv, &file, why);
    if (r < 0 || config->action == CONFIG_HELP || config->action == CONFIG_VERSION ||
        config->action == CONFIG_NEW_KEY)
        return r;
    if (!file && access(DEFAULT_FILE, F_OK) == 0)
        file = DEFAULT_FILE;
    if (file && *file)
        r = config_read_file(config, file, why);
    if (r == 0)
        r = read_environment(config, why);
    if (r == 0)
        r = read_flags(config, argc, argv, &file, why);
    if (r < 0)
        return r;
    choose_automatic(config);
    make_absolute(&config->state);
    make_absolute(&config->image);
    make_absolute(&config->package_cache);
    make_absolute(&config->keys_file);
    make_absolute(&config->tls_cert);
    make_absolute(&config->tls_key);
    return config_check(config, why);
}

void config_free(struct config *config)
{
    for (size_t i = 0; i < settings_count; i++) {
        enum setting_type type = settings[i].type;
        if (type == SETTING_TEXT || type == SETTING_LIST || type == SETTING_ADDRESS ||
            type == SETTING_SECRET) {
            char **text = (char **)((char *)config + settings[i].offset);
            free(*text);
            *text = NULL;
        }
    }
}
