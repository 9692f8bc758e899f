/* The legacy session with huskd: begun by the client's `initialize`, renewed without the client's noticing when huskd has forgotten it
 * (because it was started anew), ended with the bridge.
 *
 *     none ──initialize──▶ beginning ──answer──▶ open ──"no such session"──▶ beginning (our own handshake, the same message)
 *                             └──error──▶ none                                  └──no huskd──▶ lost; the next call tries again
 *
 * While it begins, legacy calls wait. A stream (GET /mcp) brings notifications that belong to no call; it is opened again
 * when it ends. What a new session does not know is which sandboxes the old one had made. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "command/mcp_message.h"

struct bridge;
struct call;
struct curl_slist;
struct transfer;
struct transfer_end;

enum mcp_session_state {
    SESSION_NONE,
    SESSION_BEGINNING,
    SESSION_OPEN,
    SESSION_LOST
};

struct mcp_session {
    enum mcp_session_state state;
    uint64_t number; /* of the session: they are counted */
    char *id;        /* NULL: huskd gave none */
    char *version;   /* that was agreed on */
    char *handshake; /* the client's own */
    size_t handshake_length;
    struct transfer *renewal;
    struct transfer *stream;
    uint64_t stream_ms; /* when to open it again; 0: not */
    struct transfer *farewell;
};

/* The client's `initialize` is about to be sent. */
void mcp_session_begin(struct bridge *bridge, const struct message *message);
/* … and this is the answer to it; NULL: there was none. `id`: Mcp-Session-Id, or NULL. */
void mcp_session_answered(struct bridge *bridge, const json_t *answer, const char *id);
/* A call has to wait: a session is about to begin. Begins one if it was lost. */
bool mcp_session_wait(struct bridge *bridge);
/* huskd does not know the session that `number` was. */
void mcp_session_forgotten(struct bridge *bridge, uint64_t number);
/* Headers of a message that belongs to it, added to `list` (which may be NULL); the longer list. */
struct curl_slist *mcp_session_headers(const struct mcp_session *session, struct curl_slist *list);

void mcp_session_tick(struct bridge *bridge, uint64_t now, int *wait_ms);
/* Say good-bye: true while that is under way. */
bool mcp_session_end(struct bridge *bridge);
void mcp_session_free(struct mcp_session *session);
