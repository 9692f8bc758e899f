/* The options that say what a new sandbox is like: of `husk create` and of `husk run`. */
#pragma once

#include "command/options.h"
#include "husk.h"

struct sandbox_options {
    double ttl, idle;
    uint64_t memory_mb, disk_mb, pids;
    double cpus;
    const char *name;
    bool auto_install;
};

#define SANDBOX_OPTIONS(options)                                                                   \
    {"name", 'n', OPTION_TEXT, &(options)->name}, {"ttl", '\0', OPTION_SECONDS, &(options)->ttl},  \
        {"idle", '\0', OPTION_SECONDS, &(options)->idle},                                          \
        {"memory", 'm', OPTION_MEGABYTES, &(options)->memory_mb},                                  \
        {"disk", '\0', OPTION_MEGABYTES, &(options)->disk_mb},                                     \
        {"cpus", '\0', OPTION_NUMBER, &(options)->cpus},                                           \
        {"pids", '\0', OPTION_COUNT, &(options)->pids},                                            \
    {                                                                                              \
        "auto-install", '\0', OPTION_FLAG, &(options)->auto_install                                \
    }

#define SANDBOX_OPTIONS_HELP                                                                       \
    "  -n, --name NAME      instead of its id it may then be called so\n"                          \
    "  --ttl TIME           it ends so long after it was made: 90, 10m, 2h, 1d\n"                  \
    "  --idle TIME          it ends when nothing ran for so long\n"                                \
    "  -m, --memory MB      limits: 512, 2G\n"                                                     \
    "  --disk MB\n"                                                                                \
    "  --cpus N\n"                                                                                 \
    "  --pids N\n"                                                                                 \
    "  --auto-install       modules that code imports and that are not there are installed "       \
    "first\n"

struct husk_create sandbox_options_order(const struct sandbox_options *options);
