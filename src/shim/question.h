/* What a prompt asks the kernel while no code runs: what could stand here (complete), what is this (inspect), is this all or
 * do more lines belong to it (is_complete).
 *
 * To the executor a question is an execution whose request is of another type and whose output is of no interest: so it has
 * a deadline, is interrupted at it, and ends with the kernel, like all others. Here is what differs: what is sent, and what
 * is accepted as an answer. Pure; nothing of the reply is trusted. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buffer.h"
#include "husk/shim_protocol.h"

struct question {
    enum question_kind kind;
    json_int_t length; /* of the code, in code points, as is the next: */
    json_int_t cursor;
    int detail;
    bool colours; /* leave terminal escapes in texts */
};

/* SHIM_ASK (husk/shim_protocol.h): 0 or -EINVAL. The code is checked, too. */
int question_read(const json_t *body, struct question *ret);

/* msg_type of the request, and of the reply. */
const char *question_request_type(const struct question *question);
const char *question_reply_type(const struct question *question);
/* Content of the request; a new reference, NULL when memory is out. */
json_t *question_request(const struct question *question, json_t *code);

/* Append the JSON text of the answer that this content of a reply amounts to; NULL: it could not be read. 0; -EBADMSG: it is
 * none, and nothing is appended; -ENOMEM, -ENOSPC. */
int question_answer(const struct question *question, const json_t *content, struct buffer *out);
