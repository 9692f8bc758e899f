/* Runs one execution after the other on the kernel, and sees to it that each one ends.
 *
 * An execution is over when its reply (shell) and its idle status (iopub) have both come. One of
 * them may be missing, and the code may not stop; so there is a phase for each kind of waiting, and
 * every phase ends by itself:
 *
 *     RUNNING ── idle only ───▶ AWAITING_REPLY ── 2 s ──▶ over, error NoReply
 *        └────── reply only ──▶ AWAITING_IDLE ── 1 s of silence ──▶ PROBING
 *
 * PROBING: a kernel_info_request, with a fresh iopub. When that one is idle, nothing older can come:
 * over, truncated. When nothing comes for 5 s, the kernel is replaced.
 *
 * Stopping (deadline, interrupt, caller gone): interrupt_request, 2 s later SIGINT, 2 s later the
 * kernel is replaced. SETTLING: nothing runs, but an interrupt is under way and must not hit the
 * next execution.
 *
 * Output that goes to a stream whose client does not keep up: the kernel's output is held, as long as the stream is full
 * (event_stream.h). While that lasts no idle status can come, and none is missed.
 *
 * A question (question.h) goes the same way, but only if no code runs or waits. What code comes meanwhile waits for its end,
 * some seconds at most.
 *
 * Loop thread. Every execution that was accepted gets exactly one result: sent to whoever waits, or as the end of its stream,
 * or kept if it is detached. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "husk/shim_protocol.h"
#include "loop/loop.h"
#include "shim/channels.h"
#include "shim/connection.h"
#include "shim/event_stream.h"
#include "shim/home_changes.h"
#include "shim/kernel.h"
#include "shim/order.h"

struct executor;

/* Where results go. */
struct executor_sink {
    /* `payload` of SHIM_RESULT, borrowed */
    void (*result)(void *user, struct ticket ticket, const struct buffer *payload);
    /* Instead of a result, for a question: a code of SHIM_REJECTED, and a sentence */
    void (*rejected)(void *user, struct ticket ticket, const char *code, const char *detail);
    /* `payload` of SHIM_STREAM about an execution that goes on, borrowed */
    void (*progress)(void *user, struct ticket ticket, const struct buffer *payload);
    void (*interrupted)(void *user, struct ticket ticket,
                        int status); /* 0: what ran then has ended; -errno */
    void (*changed)(void *user);     /* busy, number of waiting ones, or count */
};

/* Borrowed for the executor's life. */
struct executor_setup {
    struct loop *loop;
    struct kernel *kernel;
    struct event_streams *streams;
    struct home_changes *changes;
    int oom_fd;
    const struct executor_sink *sink;
    void *user;
};

struct executor *executor_new(const struct executor_setup *setup);
struct executor *executor_free(struct executor *executor); /* NULL ok, returns NULL */

/* Run it when its turn comes. 0: ← result; -ENOTCONN: there is no kernel; -ENOSPC: too many wait; -EBUSY: it is a question,
 * and code runs or waits, or the kernel is being replaced. */
int executor_submit(struct executor *executor, const struct order *order);
/* Its caller is gone: forget it, or stop it. ← result all the same. */
void executor_cancel(struct executor *executor, struct ticket ticket);
/* Payload of SHIM_RESULT for a detached execution, of what there is so far if it is not over. 0 or -ENOENT. */
int executor_fetch(struct executor *executor, const char *execution_id, struct buffer *ret_payload);
/* Answer what the running code asks with input(); `value` NULL: the end of input. 0, or -ENOENT when it asks nothing. */
int executor_input(struct executor *executor, json_t *value);
/* Stop what runs. ← interrupted. */
void executor_interrupt(struct executor *executor, struct ticket ticket);
/* End all, as the kernel is about to be replaced. */
void executor_end_all(struct executor *executor);

/* What the kernel's events mean to it. */
void executor_kernel_ready(struct executor *executor);
void executor_kernel_lost(struct executor *executor, const char *how);
void executor_kernel_given_up(struct executor *executor, const char *detail);
void executor_message(struct executor *executor, enum channel channel,
                      const struct message *message, uint64_t number);
void executor_damaged(struct executor *executor);
/* A stream has become full, or is no longer so. */
void executor_stream_changed(struct executor *executor);

bool executor_busy(const struct executor *executor);
size_t executor_queued(const struct executor *executor);
int64_t executor_count(
    const struct executor
        *executor); /* execution_count of the last execution; 0 in a fresh kernel */
