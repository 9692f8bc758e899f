/* One job of a porter (husk/porter_protocol.h), from asking the keeper for one until its last word. Owner: the loop.
 *
 *   ASKING (keeper) ─► WORKING ─► over: `refused` or `ended` was called, once
 *
 * What comes is passed on in the order it comes; whoever cannot take more calls porter_client_pause(): then the porter waits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/id.h"
#include "husk/porter_protocol.h"

struct keeper_client;
struct loop;
struct porter_client;

struct porter_task {
    struct id sandbox;
    enum porter_job job;
    unsigned flags;     /* PORTER_ONE_LEVEL … */
    const char *folder; /* that it works on, below /home/user; "." is that itself */
    const char *path;   /* of the request */
    int archive;        /* borrowed; -1: none */
};

struct porter_events {
    void (*refused)(int error, void *user); /* there will be no porter; errno, as of KEEPER_PORT */
    void (*begun)(const struct porter_begin *begin, void *user);
    void (*data)(const char *data, size_t length, void *user);
    /* Its last word; -ECONNRESET: it ended without one. */
    void (*ended)(const struct porter_end *end, void *user);
    void *user;
};

/* None of the callbacks is called from inside. `events` is copied. */
struct porter_client *porter_client_new(struct loop *loop, struct keeper_client *keeper,
                                        const struct porter_task *task,
                                        const struct porter_events *events);
/* At any time but from `begun` and `data`; the porter ends, and no callback is called any more. NULL ok. */
void porter_client_free(struct porter_client *client);

void porter_client_pause(struct porter_client *client);
void porter_client_resume(struct porter_client *client); /* idempotent */
