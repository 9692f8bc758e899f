/* Jupyter messages as pure functions over an array of parts:
 *
 *     [prefix]* "<IDS|MSG>" signature header parent_header metadata content [buffer]*
 *
 * What arrives was written by a stranger. message_parse() is the one entrance for it: number and
 * size of the parts, then the signature, and only then JSON, whose depth and number of values are
 * bounded before it is parsed. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/failure.h"
#include "wire/part.h"
#include "wire/signature.h"

/* A message that was taken in. Owns its JSON; message_free() when done. */
struct message {
    const char *type;      /* borrowed from the header */
    const char *parent_id; /* msg_id of the request it belongs to; "" if it names none */
    json_t *header;
    json_t *parent;
    json_t *content; /* an object; NULL if it could not be read, as type and parent still tell what
                        it was */
};

#define _cleanup_message_ _cleanup_(message_free)

/* 0; -EMSGSIZE: over a limit; -EBADMSG: not a message, or not signed with the key; -EALREADY: a
 * repetition. */
int message_parse(const struct part *parts, size_t count, struct signatures *signatures,
                  struct message *ret, struct failure *why);
void message_free(struct message *message); /* zeroed ok */

/* What to say. All of it is borrowed. */
struct message_body {
    const char *type;
    const json_t *content;
    const json_t *metadata; /* NULL: none */
    const json_t *parent;   /* header of the message that this answers; NULL: none */
};

/* A message, ready to send. Owns its texts. */
enum {
    MESSAGE_PARTS = 6
};
struct message_draft {
    struct part parts[MESSAGE_PARTS];
    char signature[SIGNATURE_TEXT_SIZE];
    char *texts[SIGNED_PARTS];
};

#define _cleanup_draft_ _cleanup_(message_draft_free)

/* Who asks, and which of its requests this is. The msg_id is made of both, so that message_number()
 * finds the way back. */
struct message_name {
    const char *session;
    uint64_t number; /* from 1, never repeated */
};

/* 0 or -ENOMEM. */
int message_build(const struct signatures *signatures, struct message_name name,
                  const struct message_body *body, struct message_draft *ret);
void message_draft_free(struct message_draft *draft); /* zeroed ok */

/* The number of the request with this msg_id, 0 if it is not one of this session. */
uint64_t message_number(const char *message_id, const char *session);
