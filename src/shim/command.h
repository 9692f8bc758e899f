/* One command of a caller: a process, or several one after the other until one fails; what they have put out so far, and, when it
 * is over, the answer (API.md "command"). Which commands there are is the business of commands.h.
 *
 * Life: command_new → command_begin → `ended` → command_free. Loop thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/id.h"
#include "husk/limits.h"
#include "husk/shim_protocol.h"
#include "loop/loop.h"
#include "shim/command_order.h"
#include "shim/home_changes.h"
#include "shim/init_link.h"
#include "shim/last_line.h"
#include "shim/process.h"
#include "shim/texts.h"
#include "shim/whole_text.h"

enum command_stop {
    COMMAND_NOT_STOPPED,
    COMMAND_TIMEOUT, /* its time is over */
    COMMAND_KILLED,  /* somebody asked for it */
    COMMAND_LEFT,    /* its caller went away */
    COMMAND_SWEPT,   /* everything in the container was killed */
};

struct command;

/* Its answer is the result of an MCP tool. */
struct command_tool {
    char sandbox[ID_TEXT_SIZE];
    char *note; /* NULL: none */
    bool links;
    struct last_line last_line;
    struct timer *progress; /* NULL: nobody wants to know */
};

struct command_events {
    void (*started)(struct command *command); /* the first process is there, `pid` is known */
    void (*ended)(struct command *command);   /* to be freed */
    void (*goes_on)(struct command *command); /* once a second, if its tool wants that */
    uint64_t (*number)(void *user);           /* for the next process */
};

/* What all commands of a sandbox share. Borrowed for their life. */
struct command_setup {
    struct loop *loop;
    struct init_link *init;
    const struct buffer *environment; /* of every process in the sandbox */
    struct home_changes *changes;
    struct leftovers *leftovers;
    int home_fd;
    int oom_fd;
    int null_fd;
    const struct command_events *events;
    void *user;
};

/* Fields are for commands.c to read, and `stream` to set before it begins. */
struct command {
    const struct command_setup *setup;
    struct command *next;
    struct ticket ticket;
    char id[ID_TEXT_SIZE];
    bool detached;
    bool several; /* asked for as a list */
    json_t *steps;
    json_t *input; /* of the first; NULL: none */
    char *directory;
    struct buffer environment;
    uint64_t timeout_ms;
    struct timer *deadline;
    struct timer *retry; /* armed while init has no time for the next process */

    size_t step; /* which one runs */
    uint64_t step_began;
    json_t *outcomes; /* of those that are over */
    uint64_t number;  /* of the process, as init knows it */
    struct process *process;
    int pid; /* of the first process inside the container; 0: not known yet */
    enum command_stop stop;
    bool over;

    int64_t started_at; /* wall clock */
    uint64_t began_ms;
    uint64_t duration_ms; /* once it is over */
    struct home_mark began;
    uint64_t oom_kills;
    struct event_stream *stream; /* either this, borrowed, … */
    struct texts texts;          /* … or this is where the output goes */
    struct whole_text whole[TEXT_STREAMS];
    struct command_tool *tool; /* NULL: none, the answer is that of the API */

    /* How it ended, or how the last process did. */
    enum execution_status status;
    struct process_end end;
    char error_value[320]; /* "": there is nothing to say */
    json_t *files;
    bool files_truncated;

    struct ticket killers[MAX_WAITING_REQUESTS]; /* who waits for its end */
    size_t killer_count;
};

/* Takes what it needs of the order, but for the stream. NULL with *why. */
struct command *command_new(const struct command_setup *setup, const struct command_order *order,
                            struct failure *why);
struct command *command_free(struct command *command); /* NULL ok, returns NULL */

/* ← ended, which may come at once. */
void command_begin(struct command *command);
/* Its time, or its caller's patience, is over. The first reason counts. ← ended, which may come at once. */
void command_stop(struct command *command, enum command_stop reason);
/* Its stream has become full, or is no longer so. */
void command_stream_changed(struct command *command);

/* An entry of a list of commands; a new reference. */
json_t *command_summary(const struct command *command);
/* Append struct shim_result_head and the JSON text of the answer, with what there is so far if it is not over. */
void command_render(struct command *command, struct buffer *payload);
/* The last events of its stream, which is given away. */
void command_end_stream(struct command *command);
