/* The Jupyter channels of one kernel: four ZeroMQ sockets over ipc, signed requests out, checked
 * messages in. A message that is not as it must be never leaves here.
 *
 * Every message sent has a number, never repeated for the life of the process, from which its msg_id is
 * made; a message is handed on with the number of the request that it belongs to. So nothing can be
 * taken for an answer to something else, and nothing of an earlier kernel for one of this kernel.
 *
 * Life: channels_new → (channels_open → … → channels_close)* → channels_free. Loop thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "loop/loop.h"
#include "wire/message.h"

enum channel {
    CHANNEL_SHELL,
    CHANNEL_CONTROL,
    CHANNEL_STDIN,
    CHANNEL_IOPUB,
    CHANNEL_COUNT
};

struct channels;

/* Callbacks may close and reopen the channels. */
struct channels_events {
    /* `number` of the request it belongs to, 0: none of ours. */
    void (*message)(void *user, enum channel channel, const struct message *message,
                    uint64_t number);
    void (*damaged)(void *user); /* a message was over a limit and is lost */
};

struct channels *channels_new(struct loop *loop, const struct channels_events *events, void *user,
                              struct failure *why);
struct channels *channels_free(struct channels *channels); /* NULL ok, returns NULL */

/* Connect to the sockets of this generation of the kernel, which need not exist yet. */
int channels_open(struct channels *channels, unsigned generation, const char *key,
                  struct failure *why);
void channels_close(struct channels *channels); /* closed ok */
/* Throw away one connection and make a new one: libzmq does not recover from a frame that is too
 * large. Reopening the shell reopens stdin as well, as both must look like one client. */
int channels_reopen(struct channels *channels, enum channel channel, struct failure *why);

/* `body` is borrowed. 0, -ENOTCONN, -EAGAIN when the kernel takes nothing, -ENOMEM. */
int channels_send(struct channels *channels, enum channel channel, const struct message_body *body,
                  uint64_t *ret_number);

/* Take nothing in from iopub until told otherwise: a kernel that puts out more than can be passed on
 * then has to wait. */
void channels_hold_output(struct channels *channels, bool hold);

/* Take in what has come. To be called before every wait of the loop: libzmq's descriptors tell of
 * an edge, not of a state, and sending can swallow that edge, so a channel is looked into after both.
 * Bounded work: wakes the loop when there is more. */
void channels_pump(struct channels *channels);
