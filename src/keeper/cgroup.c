#include "keeper/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cgroup_entry.h"
#include "base/fdio.h"
#include "base/text.h"

enum {
    CPU_PERIOD_MICROS = 100000,
    LARGEST_STAT_FILE = 16 * 1024
};

/* One limit as a line to write: which file holds it in v1 and in v2. */
struct setting {
    enum controller controller;
    const char *v1_file; /* NULL: v2 only */
    const char *v2_file; /* NULL: v1 only */
    bool optional;       /* the file is missing on some kernels */
};

/* The sandbox's directory in the hierarchy of a controller, -1 without it. */
static int directory_of(const struct cgroup *cgroup, enum controller controller, bool *unified)
{
    int index = cgroup->tree->of[controller];
    if (cgroup->tree->count == 0 || index < 0)
        return -1;
    *unified = cgroup->tree->hierarchies[index].unified;
    return cgroup->directories[index];
}

static int write_setting(const struct cgroup *cgroup, const struct setting *setting,
                         const char *text, struct failure *why)
{
    bool unified = false;
    int directory = directory_of(cgroup, setting->controller, &unified);
    const char *file = unified ? setting->v2_file : setting->v1_file;
    if (directory < 0 || !file)
        return 0;
    int r = write_file_at(directory, file, text);
    if (r < 0 && !setting->optional)
        return fail(why, r, "write %s to %s of cgroup %s", text, file, cgroup->name);
    return 0;
}

int cgroup_set_limits(const struct cgroup *cgroup, const struct sandbox_limits *limits,
                      struct failure *why)
{
    /* v1 counts what sockets hold apart, and only if it has a limit; v2 counts it as memory. */
    static const struct setting sockets = {CONTROLLER_MEMORY, "memory.kmem.tcp.limit_in_bytes",
                                           NULL, .optional = true};
    static const struct setting memory = {CONTROLLER_MEMORY, "memory.limit_in_bytes", "memory.max"};
    static const struct setting memory_swap = {CONTROLLER_MEMORY, "memory.memsw.limit_in_bytes",
                                               NULL, .optional = true};
    static const struct setting swap = {CONTROLLER_MEMORY, NULL, "memory.swap.max",
                                        .optional = true};
    static const struct setting period = {CONTROLLER_CPU, "cpu.cfs_period_us", NULL};
    static const struct setting quota = {CONTROLLER_CPU, "cpu.cfs_quota_us", NULL};
    static const struct setting cpu = {CONTROLLER_CPU, NULL, "cpu.max"};
    static const struct setting pids = {CONTROLLER_PIDS, "pids.max", "pids.max"};

    uint64_t bytes = limits->memory_bytes + limits->disk_bytes;
    uint64_t micros = (uint64_t)limits->cpu_millis * CPU_PERIOD_MICROS / 1000;
    char sockets_text[24], memory_text[24], period_text[24], quota_text[24], cpu_text[48],
        pids_text[24];
    (void)snprintf(sockets_text, sizeof sockets_text, "%" PRIu64, limits->memory_bytes / 4);
    (void)snprintf(memory_text, sizeof memory_text, "%" PRIu64, bytes);
    (void)snprintf(period_text, sizeof period_text, "%d", CPU_PERIOD_MICROS);
    (void)snprintf(quota_text, sizeof quota_text, "%" PRIu64, micros);
    (void)snprintf(cpu_text, sizeof cpu_text, "%" PRIu64 " %d", micros, CPU_PERIOD_MICROS);
    (void)snprintf(pids_text, sizeof pids_text, "%" PRIu32, limits->pids);

    const struct {
        const struct setting *setting;
        const char *text;
    } lines[] = {
        {&sockets, sockets_text}, {&memory_swap, memory_text}, /* before, to raise it, and after, to lower it: v1
                                                 never lets it be less than that of memory */
        {&memory, memory_text},   {&memory_swap, memory_text}, {&swap, "0"},
        {&period, period_text},   {&quota, quota_text},        {&cpu, cpu_text},
        {&pids, pids_text}};
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++) {
        int r = write_setting(cgroup, lines[i].setting, lines[i].text, why);
        if (r < 0)
            return r;
    }
    return 0;
}

static void close_directories(struct cgroup *cgroup)
{
    for (int i = 0; i < CONTROLLER_COUNT; i++)
        cgroup->directories[i] = close_fd(cgroup->directories[i]);
}

static int open_directory(struct cgroup *cgroup, int index)
{
    char path[PATH_MAX + NAME_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", cgroup->tree->hierarchies[index].path, cgroup->name);
    cgroup->directories[index] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return cgroup->directories[index] < 0 ? -errno : 0;
}

static void prepare(const struct cgroup_tree *tree, struct id id, struct cgroup *cgroup)
{
    cgroup->tree = tree;
    id_format(id, cgroup->name);
    for (int i = 0; i < CONTROLLER_COUNT; i++)
        cgroup->directories[i] = -1;
}

int cgroup_make(const struct cgroup_tree *tree, struct id id, const struct sandbox_limits *limits,
                struct cgroup *cgroup, struct failure *why)
{
    prepare(tree, id, cgroup);
    int r = 0;
    for (int i = 0; i < tree->count && r >= 0; i++) {
        char path[PATH_MAX + NAME_MAX];
        (void)snprintf(path, sizeof path, "%s/%s", tree->hierarchies[i].path, cgroup->name);
        r = mkdir(path, 0755) < 0 ? -errno : open_directory(cgroup, i);
        if (r < 0)
            (void)fail(why, r, "make the cgroup %s", path);
    }
    if (r >= 0)
        r = cgroup_set_limits(cgroup, limits, why);
    if (r < 0)
        (void)cgroup_remove(cgroup);
    return r;
}

void cgroup_reopen(const struct cgroup_tree *tree, struct id id, struct cgroup *cgroup)
{
    prepare(tree, id, cgroup);
    for (int i = 0; i < tree->count; i++)
        (void)open_directory(cgroup, i);
}

int cgroup_join(const struct cgroup *cgroup, struct failure *why)
{
    for (int i = 0; i < cgroup->tree->count; i++) {
        int r = cgroup_enter(cgroup->directories[i]);
        if (r < 0)
            return fail(why, r, "enter the cgroup %s/%s", cgroup->tree->hierarchies[i].path,
                        cgroup->name);
    }
    return 0;
}

int cgroup_open_oom_counter(const struct cgroup *cgroup)
{
    bool unified = false;
    int directory = directory_of(cgroup, CONTROLLER_MEMORY, &unified);
    int fd = directory < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC)
                           : openat(directory, unified ? "memory.events" : "memory.oom_control",
                                    O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The number behind `key` at the start of a line of a file; an empty key is the file's only number.
 */
static uint64_t read_number(int directory, const char *file, const char *key)
{
    char text[LARGEST_STAT_FILE];
    if (directory < 0 || read_file_at(directory, file, text, sizeof text) < 0)
        return 0;
    size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n'), line += line != NULL) {
        uint64_t value;
        if (strncmp(line, key, length) == 0 && (length == 0 || line[length] == ' ') &&
            sscanf(line + length, "%" SCNu64, &value) == 1)
            return value;
    }
    return 0;
}

void cgroup_usage(const struct cgroup *cgroup, struct sandbox_usage *usage)
{
    bool unified = false;
    int directory = directory_of(cgroup, CONTROLLER_MEMORY, &unified);
    usage->memory_bytes = read_number(directory, "memory.stat", unified ? "anon" : "total_rss");
    usage->out_of_memory_kills = (uint32_t)read_number(
        directory, unified ? "memory.events" : "memory.oom_control", "oom_kill");
    directory = directory_of(cgroup, CONTROLLER_PIDS, &unified);
    usage->pids = (uint32_t)read_number(directory, "pids.current", "");
    directory = directory_of(cgroup, CONTROLLER_CPU, &unified);
    if (directory >= 0 && unified) {
        usage->cpu_micros = read_number(directory, "cpu.stat", "usage_usec");
    } else {
        directory = directory_of(cgroup, CONTROLLER_CPUACCT, &unified);
        usage->cpu_micros = read_number(directory, "cpuacct.usage", "") / 1000;
    }
}

int cgroup_remove(struct cgroup *cgroup)
{
    int result = 0;
    for (int i = 0; i < cgroup->tree->count; i++) {
        char path[PATH_MAX + NAME_MAX];
        (void)snprintf(path, sizeof path, "%s/%s", cgroup->tree->hierarchies[i].path, cgroup->name);
        if (rmdir(path) < 0 && errno != ENOENT)
            result = -errno;
    }
    if (result == 0)
        close_directories(cgroup);
    return result;
}
