/* Installing packages into a sandbox. It has no network, so this is done in steps by processes that have nothing in common:
 *
 *   QUEUED ─► LISTING (in the sandbox: what is there) ─► FETCHING (husk-fetcher: resolve, download) ─► INSTALLING (in the
 *   sandbox, without a network: unpack, exchange) ─► done
 *
 * One at a time in each sandbox, in the order they were asked for. huskd carries nothing from one to the other but requirements
 * and pins that it has checked. A failure at any step leaves the sandbox's packages as they were. The sandbox's end answers
 * everybody who waits. Owner: the sandbox; loop thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "husk/limits.h"

struct install;
struct packages; /* of one sandbox */
struct problem;
struct sandbox;

struct install_order {
    json_t *requirements; /* array of strings, each checked (requirement.h); borrowed */
    bool upgrade;         /* of what is asked for, even if what is there would do */
    bool pre;
    bool no_dependencies;
};

struct install_result {
    const struct problem *problem; /* the sandbox ended, or cannot answer; else NULL */
    bool success;
    json_t *
        installed; /* [{"name", "version"}], borrowed: what is new, and what was asked for and there */
    const char *output;  /* as pip would say it, bounded */
    const char *error;   /* NULL: success */
    bool restart_needed; /* something that the kernel has imported was replaced */
};

struct install_events {
    void (*progress)(const char *line, void *user);
    void (*done)(const struct install_result *result, void *user); /* once; NULL: nobody waits */
    void (*silent)(
        void *user); /* it is at work, and has not said so for a while; NULL: never mind */
    void *user;
};

/* Get in line. NULL: refused, see *problem. Never calls back from inside. */
struct install *install_begin(struct sandbox *sandbox, const struct install_order *order,
                              const struct install_events *events, struct problem *problem);
/* Nobody waits for it any more: it ends, unless files are changing their places just now. No more callbacks. */
void install_cancel(struct install *install);

/* For shim_client.h, of a sandbox: pip in there asks, or went away. */
void packages_wanted(uint64_t tag, const char *payload, size_t length, void *sandbox);
void packages_unwanted(uint64_t tag, void *sandbox);

/* What the shim says is installed, checked: an array of {"name", "version"}, new reference. NULL: it makes no sense. */
json_t *packages_read(const char *text, size_t length);
/* What is happening, or happened, to a package: "installing", "failed" with the reason in *error (borrowed), or NULL. */
const char *packages_state(const struct sandbox *sandbox, const char *name, const char **error);

/* The sandbox ends. */
void packages_end(struct sandbox *sandbox, const struct problem *problem);
