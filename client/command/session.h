/* What almost every verb begins with: its command line is read, and a client stands ready. */
#pragma once

#include <stdbool.h>

#include "command/options.h"
#include "husk.h"

struct session {
    struct command_line line;
    const struct invocation *invocation; /* of the line */
    struct husk *husk;
    struct husk *
        helper; /* another client, that signals do not cancel: for answers to input(), and for cleaning up; NULL without session_guard() */
    struct husk_error error; /* room for one */
};

#define _cleanup_session_ _cleanup_(session_free)

/* False: return session->line.status. The line's table and numbers are set by the caller. */
bool session_begin(struct session *session, const struct invocation *invocation, int argc,
                   char **argv);
/* From now on signals cancel what husk does, and there is a helper. False: return session->line.status. */
bool session_guard(struct session *session);
void session_free(struct session *session);

/* The exit status of session->error, which is said. */
int session_failed(const struct session *session);
/* Print what the service said, its JSON or an id, and a line feed; on a terminal defused. */
int session_print(const char *text);
/* `{"status":"success", …}` for --json where the library has no answer to show; pairs of names and values, then NULL. Nothing without --json. */
int session_success(const struct session *session, ...) __attribute__((sentinel));
