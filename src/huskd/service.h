/* What everything in huskd hangs from. One per process; owner: the loop thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "huskd/seal.h"
#include "huskd/slots.h"

struct caller;
struct callers;
struct config;
struct keeper_client;
struct loop;
struct package_source;
struct pool;
struct problem;
struct registry;
struct sandbox;
struct timer;

enum service_phase {
    SERVICE_STARTING, /* sandboxes of an earlier huskd are being taken over */
    SERVICE_RUNNING,
    SERVICE_STOPPING
};

struct service {
    const struct config *config;
    struct loop *loop;
    struct keeper_client *keeper;
    struct registry *registry;
    struct callers *callers; /* borrowed */
    struct seal_key seal_key;
    struct slots creations;
    struct slots fetches;
    struct package_source *package_source; /* borrowed */
    struct pool *pool;
    enum service_phase phase;
    uint64_t started_ms;
    size_t uploads;            /* files that are being received */
    unsigned creations_failed; /* since the last one that worked */
    char last_failure[240];
    struct timer *sweep_timer;
    bool sweeping;
    size_t
        adopting; /* while starting: sandboxes that have not said who they are, and one for the list of them */
    size_t adopted;
    void (*abandoned)(
        void *user); /* the anchor ended, and with it every sandbox: nothing can be made any more */
    void *abandoned_user;
};

/* Takes `keeper_fd`, a connection from keeper_connect(), and `ledger_fd` (ledger.h; -1: none). The others are borrowed. */
struct service *service_new(const struct config *config, struct callers *callers, struct loop *loop,
                            int keeper_fd, int ledger_fd);
/* Take over the sandboxes that are there, then run. */
void service_start(struct service *service);
/* Forget everything; the sandboxes live on. */
struct service *service_free(struct service *service);

/* The sandbox a request of this caller is about: live, or NULL and why not (not found, closed, still being made, …). The only way
 * from what somebody wrote to a sandbox: one that he may not see is not found, as if it did not exist. */
struct sandbox *service_find(const struct service *service, const struct caller *caller,
                             const char *reference, struct problem *problem);
/* Why no sandbox can be made, for /health. Returns how many reasons were filled in. */
enum {
    SERVICE_REASONS = 3
};
unsigned service_unhealthy(const struct service *service, char reasons[SERVICE_REASONS][320]);
