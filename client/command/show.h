/* What code or a command does, as it happens: output to where it belongs, figures into files, questions to whoever sits there. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "command/defuse.h"
#include "command/figures.h"
#include "command/verb.h"
#include "husk.h"

struct show {
    const struct invocation *invocation; /* borrowed */
    struct husk
        *helper; /* a client beside the one that streams: for answers to input(); borrowed */
    const char *sandbox; /* borrowed */
    struct figures figures;
    struct defuse out, error; /* on terminals */
    bool broken;              /* nobody reads our output */
    bool told;                /* an error was shown */
    uint64_t files;           /* that it made or changed */
    char first_file[256];
};

/* A husk_on_event; `user` is the show. */
int show_event(const struct husk_event *event, void *user);
/* The last event of a stream, and what should be said about how it went. */
void show_result(struct show *show, const struct husk_result *result);
/* The colours end; also after failures. */
void show_end(struct show *show);
