/* Where the output of an execution goes: kept for one answer (answer.h), or sent on as it comes (event_stream.h). outputs.h
 * makes sense of the kernel's messages and calls these; what it passes is borrowed. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum text_stream {
    STREAM_STDOUT,
    STREAM_STDERR,
    TEXT_STREAMS
};

/* Something that is shown: the MIME types of one display_data, execute_result or update_display_data. */
struct display {
    size_t number;  /* counts from 0; an update carries the number of what it replaces */
    bool main;      /* what the last expression returned */
    bool replaces;  /* an update of what this execution has shown before … */
    bool foreign;   /* … or of what an earlier execution has shown */
    const char *id; /* NULL: cannot be updated */
    const json_t *content;
};

/* An exception. The traceback is bounded already. */
struct exception {
    json_t *name, *value;  /* strings */
    const char *traceback; /* NULL: none */
    size_t traceback_length;
};

struct recorder {
    const struct recorder_type *type;
};

struct recorder_type {
    void (*text)(struct recorder *recorder, enum text_stream stream, const char *text,
                 size_t length);
    void (*display)(struct recorder *recorder, const struct display *display);
    void (*exception)(struct recorder *recorder, const struct exception *exception);
    void (*clear)(struct recorder *recorder);
    /* The whole text of a stream is in this file, in case that it does not fit. */
    void (*whole_text)(struct recorder *recorder, enum text_stream stream, const char *path);
    bool (*is_cut)(const struct recorder *recorder); /* something is missing */
};
