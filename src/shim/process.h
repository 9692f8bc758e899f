/* A process that init starts, with pipes for its stdin, stdout and stderr.
 *
 *     STARTING ── init has it ──▶ RUNNING ── it has ended ──▶ DRAINING ── its pipes are empty ──▶ ended
 *         └── could not be started ─────────────────────────────────────────────────────────────────▲
 *
 * Its output comes as UTF-8 (utf8_mender.h), in pieces, and not before `started`. When the process has ended, somebody else may
 * still hold its pipes: a process in the background. Then they are read for DRAIN_MILLISECONDS more, and that is all; what comes
 * later is thrown away (leftovers.h).
 *
 * Stopping: SIGTERM to its group, after STOP_MILLISECONDS SIGKILL to its session. One that is stopped leaves nothing
 * behind in its session.
 *
 * `ended` comes exactly once, from the loop or from process_start()'s caller's loop, never from inside process_start(). Loop thread.
 * What init says of it is passed on by whoever listens (commands.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "loop/loop.h"
#include "shim/init_link.h"
#include "shim/recorder.h"

struct leftovers;
struct process;

enum process_end_kind {
    PROCESS_EXITED,    /* value: exit code */
    PROCESS_SIGNALLED, /* value: signal */
    PROCESS_FAILED,    /* it was not started; value: errno */
    PROCESS_LOST       /* it was killed and does not end */
};

struct process_end {
    enum process_end_kind kind;
    int value;
    enum init_step step; /* PROCESS_FAILED */
};

struct process_events {
    void (*started)(void *user, int pid);
    /* Borrowed; whole characters. */
    void (*output)(void *user, enum text_stream stream, const char *text, size_t length);
    void (*ended)(void *user, const struct process_end *end); /* then process_free() */
};

struct process_order {
    struct loop *loop;
    struct init_link *init;
    struct init_name name;
    struct init_command command; /* without stdio */
    struct leftovers *leftovers; /* NULL: its pipes are closed when it has ended */
    int null_fd;                 /* its stdin, if there is no input */
    const char *input; /* NULL: none. Borrowed for the process's life, as are the three below */
    size_t input_length;
    const struct process_events *events;
    void *user;
};

/* NULL with *why. */
struct process *process_start(const struct process_order *order, struct failure *why);
/* Frees without any further event; one that runs is killed. NULL ok, returns NULL. */
struct process *process_free(struct process *process);

/* What init says. */
void process_started(struct process *process, int pid);
void process_failed(struct process *process, enum init_step step, int code);
void process_exited(struct process *process, int wait_status);

/* Leave its output where it is, or read on. */
void process_hold(struct process *process, bool hold);
void process_stop(struct process *process);
/* Is there still something that could be stopped? */
bool process_runs(const struct process *process);
