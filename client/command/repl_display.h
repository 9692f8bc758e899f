/* What a cell shows, on the terminal: text as it comes, defused (defuse.h); values as "Out[3]: …"; figures as files, and in terminals that can, as pictures.
 * It counts rows, so that clear_output() and updates of a display take back what was shown, as far as that is still on the screen. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "command/defuse.h"
#include "command/figures.h"
#include "command/inline_image.h"
#include "husk.h"

enum display_images {
    IMAGES_AUTO,   /* files, and inline where the terminal can */
    IMAGES_INLINE, /* inline only; where the terminal cannot, the text of the figure */
    IMAGES_FILE,
    IMAGES_NONE /* their text: <Figure size 640x480 with 1 Axes> */
};

struct display {
    enum display_images images;
    enum inline_protocol protocol;
    struct figures figures;
    bool colours, quiet;

    /* Of the cell that runs */
    uint64_t number; /* for "Out[3]: " */
    struct defuse defuse;
    unsigned row, column; /* of the cursor, from where the cell's output began */
    bool unknown;         /* rows are no longer known: a picture was shown */
    bool any;             /* something was shown */
    bool error_shown;
    uint64_t last_output; /* the display that was shown last, if nothing came after it … */
    char last_id[64];     /* … and its display_id */
    bool last;
    unsigned last_row; /* where it began */
};

/* `folder`: where figures go; borrowed. */
void display_init(struct display *display, const char *folder, enum display_images images);
/* A cell begins. */
void display_begin(struct display *display, uint64_t number);
/* 0, or not: nobody reads. HUSK_EVENT_INPUT shows the question. */
int display_event(struct display *display, const struct husk_event *event);
/* What was typed as an answer to input() stands there, too, and has ended the line. */
void display_answered(struct display *display);
/* It has ended: `result` is NULL if that is not known. The cursor is at a line's begin. */
void display_end(struct display *display, const struct husk_result *result);

/* A line of the prompt itself. Text of others in it is defused. */
void display_note(struct display *display, const char *format, ...) _printf_(2, 3);
/* Text of others, as it is but defused, with a line feed at its end. */
void display_text(const char *text, size_t length);
