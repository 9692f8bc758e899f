/* What the code of one execution asks for with input() and getpass(), and who answers: lines that were given beforehand, or
 * the caller while it reads the stream.
 *
 *     IDLE ── request and its note have both come ──▶ PENDING ── answered ──▶ IDLE
 *
 * The request comes on the stdin channel, where it may overtake output that was written before it. So the kernel also
 * leaves a note (`husk_input`) at its place among the output, and the request counts when both are there. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "shim/event_stream.h"
#include "shim/kernel.h"

enum input_mode {
    INPUT_NONE, /* input() raises at once, by the kernel */
    INPUT_GIVEN,
    INPUT_ASK
};

struct input {
    enum input_mode mode;
    json_t *lines; /* INPUT_GIVEN */
    size_t next_line;
    bool noted;
    json_t *request; /* header of the input_request that is not answered yet; NULL: none */
    json_t *prompt;  /* a string */
    bool password;
    bool told; /* INPUT_ASK: the caller knows */
};

/* A new reference of `lines` is taken. */
void input_init(struct input *input, enum input_mode mode, json_t *lines);
void input_free(struct input *input); /* zeroed ok */
/* "none", "given", "ask": what the kernel is told. */
const char *input_mode_name(const struct input *input);

/* The note has come, or the request. Answer it, or tell the caller of `stream` (INPUT_ASK only). */
void input_note(struct input *input, struct kernel *kernel, struct event_stream *stream);
void input_request(struct input *input, const struct message *message, struct kernel *kernel,
                   struct event_stream *stream);
/* The caller's answer: a string, or NULL for the end of input. 0, -ENOENT when nothing was asked, or -errno. */
int input_answer(struct input *input, json_t *value, struct kernel *kernel);
