/* The huskd that the bridge talks to: is there one, and with --start, starting one. A huskd that was started stays when the bridge ends: others may
 * use it, and sandboxes live on. It writes its log to $XDG_STATE_HOME/husk/huskd.log (~/.local/state/husk/huskd.log).
 *
 *     unknown ──GET /health──▶ up
 *        └──no answer──▶ starting (calls wait) ──▶ up, or unknown again with an error for all that wait */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct bridge;
struct failure;
struct transfer;
struct words;

enum service_state {
    SERVICE_UNKNOWN,
    SERVICE_STARTING,
    SERVICE_UP
};

struct service {
    enum service_state state;
    bool may_start;
    const struct words *arguments; /* for huskd, in addition */
    char *listen;                  /* "127.0.0.1:8000"; NULL: may not start */
    char *log;                     /* of a huskd that was started; "": none */
    pid_t child;                   /* 0: none */
    struct transfer *probe;
    uint64_t probe_ms, deadline_ms; /* 0: none */
};

/* `start`: --start. `arguments` is borrowed for good. */
int service_init(struct bridge *bridge, bool start, const struct words *arguments,
                 struct failure *why);
void service_free(struct service *service);
/* Ask it whether it is there. */
void service_probe(struct bridge *bridge);
/* Nobody answers. True: one is being started, and what was not heard may wait. */
bool service_refused(struct bridge *bridge);
/* It says itself that it is about to be there: what it did not take may wait. */
void service_starts(struct bridge *bridge);
/* A sentence for calls that found nobody. */
const char *service_absent(const struct bridge *bridge);
void service_tick(struct bridge *bridge, uint64_t now, int *wait_ms);
