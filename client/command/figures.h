/* Pictures that code has shown become files of this machine: figure-1.png, figure-2.svg, … Their names are ours, and no file that was there is
 * ever replaced, so that nothing a sandbox says can choose what is written. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "husk.h"

enum {
    MAX_REMEMBERED_FIGURES = 64
};

struct figures {
    const char *folder; /* where they go: borrowed; made if it is not there */
    unsigned last;      /* number of the last one */
    struct {
        uint64_t output; /* of the execution */
        char name[32];
    } remembered[MAX_REMEMBERED_FIGURES]; /* the last ones: an update replaces its figure */
    size_t count;
};

/* Of all forms of an output the one to save: NULL if none is a picture. */
const struct husk_output *figures_choose(const struct husk_output *outputs, size_t count);
/* Save it. `name` gets what it is called in the folder; `update`: it replaces the one of the same output. */
int figures_save(struct figures *figures, const struct husk_output *output, bool update,
                 char name[32], struct failure *why);
