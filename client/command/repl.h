/* `husk repl`: a prompt in a sandbox.
 *
 *              cell                    input()
 *   EDITING ─────────► RUNNING ◄───────────────► ASKING
 *      ▲ │ ◄─────────────┘ end, Ctrl-C ◄────────────┘
 *      │ └─ Ctrl-D, :quit, exit, SIGTERM, SIGHUP ─► ENDED
 *      └─ Ctrl-C: the line is dropped
 *
 * The state is where the one thread of the prompt is, so that there is no variable for it:
 *
 *   EDITING  in editor_read(). The editor owns the terminal (repl_editor.h) and takes the signals. Enter and Tab ask the kernel.
 *   RUNNING  in husk_execute_streaming(). The terminal is hushed (repl_terminal.h): what is typed waits for the next prompt. A second thread takes
 *            the signals and interrupts the cell, never the client (repl_interrupt.h). Events go to the display (repl_display.h).
 *   ASKING   in terminal_ask(), inside the callback of an event. Ctrl-C ends the question and interrupts the cell.
 *   ENDED    the sandbox is closed, if it is ours; the terminal is as it was.
 *
 * Clients: `husk` runs cells and answers Tab; `helper` answers input() while husk is in use, and closes the sandbox; `messenger` interrupts, from the
 * other threads. Nobody else uses them.
 *
 * When things go wrong the prompt stays, and no text is lost: a cell that was not run stands at the next prompt, one that may have run is
 * in the history.
 *
 *   service not reachable   said; the cell stands at the prompt, Enter tries again
 *   connection broke        said, and that the cell may have run, or may run still; the next cell connects anew, and waits for its end: then Ctrl-C
 *                           interrupts the earlier one
 *   sandbox closed, expired said; the cell stands at the prompt, and the next one runs in a new sandbox
 *   kernel replaced         said: variables are gone, files are still there; cells count from 1 again
 *
 * Without a terminal (repl_batch.h) lines of standard input are cut into cells, and there are no prompts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "command/repl_display.h"
#include "command/repl_editor.h"
#include "command/sandbox_options.h"
#include "command/session.h"

struct interrupter;

struct repl {
    struct session *session; /* with husk and helper; borrowed */
    struct husk *messenger;
    struct husk_create order; /* of a new sandbox */
    char *sandbox;            /* its id, or what the user called it; NULL: there is none */
    bool own;                 /* made by us: it is closed at the end */
    bool keep;                /* unless this was said */
    bool gone;                /* it is no more: the next cell makes another one */
    bool orphan;              /* a cell may still run there, whose connection broke */
    double timeout;           /* of a cell; 0: the service's own */
    uint64_t count;           /* number of the next cell */
    struct display display;
    struct editor *editor; /* NULL without a terminal */
};

enum {
    /* Of a cell, unless --timeout says otherwise: what services allow by default. One that allows less is asked for what it gives. */
    REPL_TIMEOUT = 3600
};

/* repl_cell.c. Run a cell, show what it does. */
void repl_run(struct repl *repl, const char *cell);
/* Is it "name?" or "name??" or "?name"? Then it was shown. */
bool repl_inspect(struct repl *repl, const char *cell);
/* For the editor; `user` is the repl. */
struct husk_completeness *repl_completeness(const char *code, void *user);
struct husk_completion *repl_complete(const char *code, size_t cursor, void *user);
/* What Ctrl-C may end is over, with this error or none. True: it was given up. */
bool repl_given_up(struct repl *repl, struct interrupter *interrupter,
                   const struct husk_error *error);
/* A sandbox stands ready: false, if none can be made; that was said. */
bool repl_sandbox(struct repl *repl);

/* repl_command.c. What begins with a colon; false: it asks for the end. */
bool repl_command(struct repl *repl, const char *line);
