#include "command/repl_display.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/fdio.h"
#include "base/text.h"
#include "command/human.h"
#include "command/terminal.h"

enum {
    TAB_WIDTH = 8,
    USUAL_HEIGHT = 24
};

void display_init(struct display *display, const char *folder, enum display_images images)
{
    *display = (struct display){
        .images = images,
        .protocol = inline_protocol_of_terminal(),
        .figures.folder = folder,
        .colours = terminal_has_colours(STDOUT_FILENO),
    };
}

void display_begin(struct display *display, uint64_t number)
{
    display->number = number;
    display->defuse = (struct defuse){};
    display->row = display->column = 0;
    display->unknown = display->any = display->error_shown = display->last = false;
    display->figures.count = 0;
}

/* --- text ----------------------------------------------------------------------------------------- */

static unsigned height(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row ? size.ws_row : USUAL_HEIGHT;
}

static void advance(struct display *display, unsigned width, unsigned taken)
{
    display->column += taken;
    if (display->column > width) {
        display->row++;
        display->column = taken;
    }
}

static unsigned min(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Where the cursor is after a text that is defused: the only sequences in it end with m or K. Behind the last column a terminal does not go, neither
 * for a tab nor, until the next character, for one that fills it; where terminals differ, rather a row too few is counted than one too many,
 * for what is above the cell is not the cell's to take back. */
static void follow(struct display *display, const char *text, size_t length)
{
    unsigned width = terminal_width(STDOUT_FILENO);
    mbstate_t state = {};
    for (size_t i = 0, step; i < length; i += step) {
        wchar_t c;
        step = mbrtowc(&c, text + i, length - i, &state);
        if (step == 0 || step > length - i) {
            step = 1;
            state = (mbstate_t){};
            continue;
        }
        if (c == L'\n') {
            display->row++;
            display->column = 0;
        } else if (c == L'\r') {
            display->column = 0;
        } else if (c == L'\b') {
            display->column = min(display->column, width - 1);
            display->column -= display->column > 0;
        } else if (c == L'\t') {
            unsigned stop = display->column + TAB_WIDTH - display->column % TAB_WIDTH;
            display->column = min(stop, width - 1);
        } else if (c == 0x1b) {
            while (step < length - i && !strchr("mK", text[i + step]))
                step++;
            step += step < length - i;
        } else {
            int taken = wcwidth(c);
            advance(display, width, taken > 0 ? (unsigned)taken : 0);
        }
    }
}

static int write_plain(struct display *display, const char *text, size_t length)
{
    display->any |= length > 0;
    follow(display, text, length);
    return write_all(STDOUT_FILENO, text, length) < 0;
}

static int write_text(struct display *display, const char *text, size_t length)
{
    _cleanup_buffer_ struct buffer out = {};
    defuse_text(&display->defuse, text, length, &out);
    display->last = false;
    return out.length > 0 && write_plain(display, out.data, out.length);
}

static int end_text(struct display *display)
{
    _cleanup_buffer_ struct buffer out = {};
    defuse_end(&display->defuse, &out);
    return out.length > 0 && write_plain(display, out.data, out.length);
}

/* To the begin of a line. */
static int end_line(struct display *display)
{
    return end_text(display) || (display->column > 0 && write_plain(display, "\n", 1));
}

static int write_line(struct display *display, const char *text, size_t length)
{
    return write_text(display, text, length) || end_line(display);
}

/* In the colour of a terminal, if it has some. */
static int write_coloured(struct display *display, const char *colour, const char *text)
{
    bool on = display->colours && *colour;
    return (on && write_plain(display, colour, strlen(colour))) ||
           write_plain(display, text, strlen(text)) || (on && write_plain(display, "\033[0m", 4));
}

/* --- taking back ---------------------------------------------------------------------------------- */

/* Everything from a row of the cell on is erased, if it is still on the screen; else what comes goes below. */
static int take_back(struct display *display, unsigned row)
{
    char sequence[32];
    unsigned up = display->row - row;
    if (display->unknown || up + 1 >= height())
        return end_line(display);
    int length = up > 0 ? snprintf(sequence, sizeof sequence, "\r\033[%uA\033[J", up)
                        : snprintf(sequence, sizeof sequence, "\r\033[J");
    display->row = row;
    display->column = 0;
    return write_all(STDOUT_FILENO, sequence, (size_t)length) < 0;
}

static int clear(struct display *display)
{
    if (end_text(display))
        return 1;
    int r = take_back(display, 0);
    display->row = 0;
    display->unknown = display->last = false;
    return r;
}

/* --- figures and values --------------------------------------------------------------------------- */

static int save_figure(struct display *display, const struct husk_output *figure, bool update)
{
    char name[32], size[HUMAN_SIZE];
    struct failure why;
    if (figures_save(&display->figures, figure, update, name, &why) < 0) {
        display_note(display, "The figure cannot be saved: %s", why.text);
        return 0;
    }
    human_bytes(figure->data.length, size);
    _cleanup_buffer_ struct buffer line = {};
    (void)buffer_printf(&line, "[%s %s/%s, %s]", update ? "figure again in" : "figure saved as",
                        display->figures.folder, name, size);
    const char *text = buffer_text(&line);
    return write_coloured(display, "\033[2m", text ? text : "") || write_plain(display, "\n", 1);
}

static int show_figure(struct display *display, const struct husk_output *figure, bool update)
{
    bool inside = display->images == IMAGES_AUTO || display->images == IMAGES_INLINE;
    _cleanup_buffer_ struct buffer out = {};
    if (end_line(display))
        return 1;
    bool shown = inside && !strcmp(figure->type, "image/png") &&
                 inline_image(display->protocol, figure->data.data, figure->data.length, &out) == 0;
    if (shown) {
        display->any = display->unknown = true;
        if (write_all(STDOUT_FILENO, out.data, out.length) < 0)
            return 1;
    }
    return display->images == IMAGES_INLINE ? 0 : save_figure(display, figure, update);
}

static const struct husk_output *of_type(const struct husk_event *event, const char *type)
{
    for (size_t i = 0; i < event->output_count; i++)
        if (starts_with(event->outputs[i].type, type))
            return &event->outputs[i];
    return NULL;
}

/* As a text, if it has one; else what it is. */
static int show_value(struct display *display, const struct husk_event *event)
{
    const struct husk_output *value = of_type(event, "text/plain");
    const struct husk_output *first = &event->outputs[0];
    char label[64];
    value = value ? value : of_type(event, "text/");
    if (end_line(display))
        return 1;
    if (first->main) {
        (void)snprintf(label, sizeof label, "Out[%" PRIu64 "]: ", display->number);
        if (write_coloured(display, "\033[31m", label))
            return 1;
    }
    if (!value) {
        char size[HUMAN_SIZE], what[256];
        human_bytes(first->data.length, size);
        int length = snprintf(what, sizeof what, "[%.100s, %s]", first->type, size);
        return write_line(display, what, (size_t)length);
    }
    /* The lines of a table stand below each other. */
    bool several = memchr(value->data.data, '\n', value->data.length);
    if (first->main && several && write_plain(display, "\n", 1))
        return 1;
    return write_line(display, value->data.data, value->data.length);
}

static bool is_last(const struct display *display, const struct husk_output *output)
{
    return display->last &&
           (output->output == display->last_output ||
            (*output->display_id && !strcmp(output->display_id, display->last_id)));
}

static int show_output(struct display *display, const struct husk_event *event)
{
    bool update = event->kind == HUSK_EVENT_UPDATE;
    if (event->output_count == 0)
        return 0;
    const struct husk_output *first = &event->outputs[0];
    const struct husk_output *figure = figures_choose(event->outputs, event->output_count);
    if (update && is_last(display, first) && take_back(display, display->last_row))
        return 1;
    if (end_line(display))
        return 1;
    unsigned row = display->row;
    bool picture = figure && (display->images == IMAGES_AUTO || display->images == IMAGES_FILE ||
                              (display->images == IMAGES_INLINE && display->protocol));
    int r = picture ? show_figure(display, figure, update) : show_value(display, event);
    display->last = true;
    display->last_row = row;
    display->last_output = first->output;
    (void)snprintf(display->last_id, sizeof display->last_id, "%s", first->display_id);
    return r;
}

/* --- events --------------------------------------------------------------------------------------- */

static int show_error(struct display *display, const char *error, const char *value,
                      const char *traceback)
{
    display->error_shown = true;
    if (end_line(display))
        return 1;
    if (traceback && *traceback)
        return write_line(display, traceback, strlen(traceback));
    _cleanup_buffer_ struct buffer line = {};
    (void)buffer_printf(&line, "%s%s%s", error, value && *value ? ": " : "", value ? value : "");
    return line.length > 0 && write_line(display, line.data, line.length);
}

int display_event(struct display *display, const struct husk_event *event)
{
    switch (event->kind) {
    case HUSK_EVENT_STDOUT:
    case HUSK_EVENT_STDERR:
    case HUSK_EVENT_INPUT:
        return write_text(display, event->text.data, event->text.length);
    case HUSK_EVENT_PROGRESS:
        return write_line(display, event->text.data, event->text.length);
    case HUSK_EVENT_RESULT:
    case HUSK_EVENT_UPDATE:
        return show_output(display, event);
    case HUSK_EVENT_CLEAR:
        return clear(display);
    case HUSK_EVENT_ERROR:
        return show_error(display, event->error ? event->error : "Error", event->error_value,
                          event->traceback);
    case HUSK_EVENT_QUEUED:
        display_note(display, "Something else runs in this sandbox: this waits for its end.");
        return 0;
    case HUSK_EVENT_DROPPED:
        display_note(display, "%" PRIu64 " pieces of output are missing.", event->index);
        return 0;
    default:
        return 0;
    }
}

void display_answered(struct display *display)
{
    display->row++;
    display->column = 0;
}

void display_end(struct display *display, const struct husk_result *result)
{
    (void)end_line(display);
    if (!result)
        return;
    if (result->error && !display->error_shown)
        (void)show_error(display, result->error, result->error_value, NULL);
    if (result->truncated)
        display_note(display, "Some output is missing: there was too much of it.");
    if (result->state_lost)
        display_note(display,
                     "The kernel was replaced: variables are gone, files are still there.");
}

void display_note(struct display *display, const char *format, ...)
{
    _cleanup_buffer_ struct buffer safe = {};
    struct defuse defuse = {.one_line = true};
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t shown = length < (int)sizeof text ? (size_t)length : sizeof text - 1;
    defuse_text(&defuse, text, shown, &safe);
    defuse_end(&defuse, &safe);
    (void)end_line(display);
    if (buffer_text(&safe))
        (void)write_coloured(display, "\033[33m", safe.data);
    (void)write_plain(display, "\n", 1);
}

void display_text(const char *text, size_t length)
{
    _cleanup_buffer_ struct buffer safe = {};
    struct defuse defuse = {};
    defuse_text(&defuse, text, length, &safe);
    defuse_end(&defuse, &safe);
    if (safe.length == 0 || safe.data[safe.length - 1] != '\n')
        (void)buffer_append_text(&safe, "\n");
    write_all(STDOUT_FILENO, safe.data, safe.length);
}
