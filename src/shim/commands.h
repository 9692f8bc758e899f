/* The commands of a sandbox: which run beside the kernel, and what became of detached ones.
 *
 *     SHIM_COMMAND ─▶ command ─▶ process ─▶ init            its answer, events or kept result ◀─ commands
 *
 * A command ends with its process, when its time is over, when somebody kills it, or when its caller goes away and it is not
 * detached. A restart of the kernel leaves it alone, unless kernels fail to start (kernel.h). Every command that was accepted gets
 * exactly one result. Loop thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "shim/command.h"
#include "shim/command_order.h"
#include "shim/connection.h"
#include "shim/event_stream.h"

struct commands;

struct commands_sink {
    /* `payload` of SHIM_RESULT, borrowed. */
    void (*result)(void *user, struct ticket ticket, const struct buffer *payload);
    /* Of SHIM_STREAM: members of a progress notification. */
    void (*progress)(void *user, struct ticket ticket, const struct buffer *payload);
    void (*killed)(void *user, struct ticket ticket, int status); /* 0, or -EBUSY */
    void (*changed)(void *user);                                  /* how many run */
};

/* `shared` without leftovers, events and user. */
struct commands *commands_new(const struct command_setup *shared, struct event_streams *streams,
                              const struct commands_sink *sink, void *user);
struct commands *commands_free(struct commands *commands); /* NULL ok, returns NULL */

/* 0: ← result. -ENOSPC: too many run, or are streamed; -E2BIG: its environment is too large. */
int commands_submit(struct commands *commands, const struct command_order *order);
/* Its caller is gone; or the callers of an earlier connection are. Detached ones run on. */
void commands_cancel(struct commands *commands, struct ticket ticket);
void commands_cancel_old(struct commands *commands, const struct connection *connection);
/* ← killed, when it has ended. -ENOENT: there is none. `reference`: an id, or a pid. */
int commands_kill(struct commands *commands, const char *reference, struct ticket ticket);
/* Payloads of SHIM_RESULT: all that run and those that are kept; one, running or kept. 0, -ENOENT or -errno. */
int commands_list(const struct commands *commands, struct buffer *payload);
int commands_fetch(const struct commands *commands, const char *reference, struct buffer *payload);

/* Everything in the container is being killed. */
void commands_swept(struct commands *commands);
void commands_stream_changed(struct commands *commands);
size_t commands_running(const struct commands *commands);
