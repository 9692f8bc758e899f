#include "command/sandbox_options.h"

struct husk_create sandbox_options_order(const struct sandbox_options *options)
{
    return (struct husk_create){.name = options->name,
                                .ttl_seconds = (uint64_t)options->ttl,
                                .idle_seconds = (uint64_t)options->idle,
                                .memory_mb = options->memory_mb,
                                .disk_mb = options->disk_mb,
                                .pids = options->pids,
                                .cpus = options->cpus,
                                .auto_install = options->auto_install};
}
