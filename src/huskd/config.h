/* What the operator chose. Sources, each overriding the one before: built-in defaults, husk.conf
 * (INI), HUSK_… environment, flags. The settings themselves are the table in setting.c. Constant
 * once loaded. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "base/log.h"

enum config_action {
    CONFIG_RUN,
    CONFIG_CHECK,
    CONFIG_PRINT,
    CONFIG_HELP,
    CONFIG_VERSION,
    CONFIG_NEW_KEY /* of this name: new_key */
};

/* What a request gets when it does not ask, and the most it may ask for. */
struct range_setting {
    uint64_t standard;
    uint64_t maximum;
};

struct config {
    enum config_action action;
    const char *new_key; /* borrowed from the command line */

    /* [server] */
    char *listen;
    char *api_key;      /* "": none; of these, at most one */
    char *api_key_hash; /* "": none */
    char *keys_file;    /* "": none */
    char *tls_cert;     /* "": no TLS */
    char *tls_key;
    char *allowed_hosts;
    char *cors_origins;
    bool stop_sandboxes;

    /* [limits] */
    uint64_t max_sandboxes;
    uint64_t max_creating;
    struct range_setting memory_mb;
    struct range_setting pids;
    struct range_setting disk_mb;
    struct range_setting ttl_seconds;
    struct range_setting idle_seconds;
    struct range_setting timeout_seconds;
    uint64_t link_seconds;
    double cpus;
    double max_cpus;
    bool no_limits;

    /* [quotas] of a key whose line does not say (caller.h); 0: none */
    uint64_t quota_sandboxes;
    uint64_t quota_executions;
    uint64_t quota_requests;
    uint64_t quota_burst;

    /* [pool] */
    uint64_t pool_size;
    uint64_t pool_memory_mb;

    /* [packages] */
    bool packages;
    char *package_index; /* these may hold secrets */
    char *package_extra_indexes;
    char *package_proxy;
    char *package_no_proxy;
    char *package_trusted_hosts;
    char *package_ca;
    char *package_allow;
    char *package_deny;
    char *package_cache; /* directory */
    uint64_t package_cache_mb;
    uint64_t package_max_mb;
    uint64_t package_seconds;

    /* [paths] */
    char *state;
    char *image;
    uint64_t id_base;

    /* [logging] */
    int log_level;  /* enum log_level */
    int log_format; /* enum log_format */
};

/* Fill *config from all sources and check it. 0, or -errno with a sentence for the person who
 * started huskd; the caller frees in both cases. */
int config_load(struct config *config, int argc, char **argv, struct failure *why);
void config_free(struct config *config);

/* One file into *config (config_load does it; here for tests). */
int config_read_file(struct config *config, const char *path, struct failure *why);
/* The built-in values, for this user and this machine. */
void config_defaults(struct config *config);
/* What cannot be said about one setting alone. */
int config_check(const struct config *config, struct failure *why);
