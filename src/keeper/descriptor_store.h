/* What the keeper would lose if it died is kept by the anchor: for each sandbox its descriptors and
 * the numbers that go with them. A new keeper gets them all back before it does anything else, so
 * nothing about sandboxes is written to disk and no process is ever found again by its number.
 *
 * Messages are SOCK_SEQPACKET datagrams between anchor and keeper: one struct, up to four
 * descriptors. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "husk/keeper_protocol.h"

enum stored_type {
    STORED_PUT = 1, /* either way: this is a sandbox (replaces what was stored for the id) */
    STORED_DROP,    /* keeper → anchor: it is gone */
    STORED_END,     /* anchor → keeper: that was all; begin */
    STORED_READY,   /* keeper → anchor: serving; text is empty */
    STORED_FAILED,  /* keeper → anchor: cannot serve; text says why */
    STORED_STOP,    /* keeper → anchor: every sandbox is removed, end everything */
};

/* The descriptors of STORED_PUT, in this order. A sandbox without shim is half-made: a new keeper
 * removes it. */
enum stored_descriptor {
    STORED_INIT,
    STORED_STORAGE,
    STORED_FORKS, /* the keeper's end of the socket over which the shim asks for kernels */
    STORED_SHIM,
    STORED_DESCRIPTORS
};

struct stored_message {
    uint32_t type;
    uint32_t uid; /* in P */
    uint8_t id[ID_BYTES];
    struct sandbox_limits limits;
    char text[KEEPER_TEXT_SIZE];
};

/* Descriptors the anchor gives the keeper when it starts it. */
enum keeper_descriptor {
    KEEPER_LISTEN_FD = 3, /* listening socket for huskd: the anchor's, so it outlives a keeper */
    KEEPER_STORE_FD,      /* to the anchor */
    KEEPER_SHIM_FD,       /* the program husk-shim */
    KEEPER_INIT_FD,       /* the program husk-init */
    KEEPER_ZYGOTE_FD,     /* the library husk-zygote.so */
    KEEPER_PORTER_FD,     /* the program husk-porter */
    KEEPER_FETCHER_FD,    /* the program husk-fetcher */
};

/* Send; blocks at most for a moment, as both ends read promptly. 0 or -errno. */
int stored_send(int socket, const struct stored_message *message, const int *fds, size_t count);
/* 1: received (descriptors are the caller's, *count of them), 0: the other end is gone, -EAGAIN,
 * -errno. */
int stored_receive(int socket, struct stored_message *message, int fds[STORED_DESCRIPTORS],
                   size_t *count);
