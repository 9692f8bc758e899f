/* One job of husk-fetcher: it waits for its turn (MAX_FETCHES at once, for all sandboxes), then for the keeper to start one,
 * then for what it says. Ends with `done`, once, from the loop; or with fetch_cancel(), which ends the process too.
 *
 *   WAITING (in line) ─► STARTING (keeper) ─► RUNNING ─► done
 *
 * What the fetcher says is checked: it has spoken with an index. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct fetch;
struct service;

struct fetch_events {
    void (*progress)(const char *line, void *user);
    /* `packages`: borrowed, an array of {"name", "version"} and, if it is not installed yet, "sha256" and "file"; `offline`: the
     * index could not be reached. NULL: it failed, `text` says why, in the resolver's words. */
    void (*done)(json_t *packages, bool offline, const char *text, void *user);
    void *user;
};

/* `order`: as of FETCH_JOB, borrowed; what depends on the configuration is added. Never calls back from inside. */
struct fetch *fetch_begin(struct service *service, json_t *order,
                          const struct fetch_events *events);
void fetch_cancel(struct fetch *fetch); /* NULL ok */
