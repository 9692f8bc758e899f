/* The Model Context Protocol: tools, resources and prompts for models, in every revision there is. This folder is the
 * protocol; how messages come and go is the business of whoever calls mcp_receive() (http/mcp_routes.c). One dispatch
 * (methods.c) serves both eras (era.h); what differs between their answers is in call.c.
 *
 * One per service. Loop thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "mcp/call.h"
#include "mcp/era.h"

struct mcp_session;
struct service;
struct subscription;
struct timer;
struct tool_table;

struct mcp {
    struct service *service;
    struct mcp_call *calls;
    size_t call_count;
    size_t held_bytes; /* of what they were asked */
    struct mcp_session *sessions;
    size_t session_count;
    struct tool_table *tools;
    struct subscription *subscriptions;
    size_t subscription_count;
    struct timer *watch; /* of them */
};

struct mcp *mcp_new(struct service *service);
/* No outlet is called. */
struct mcp *mcp_free(struct mcp *mcp); /* NULL ok, returns NULL */
/* huskd ends: tell those that listen … */
void mcp_say_goodbye(struct mcp *mcp);
/* … and cancel what still waits, now that no transport does. Sandboxes may be forgotten then. */
void mcp_dismiss(struct mcp *mcp);

/* One message as it came, or a batch of them. */
struct mcp_input {
    const char *text;
    size_t length;
    struct mcp_headers headers;
    struct mcp_session
        *session;      /* which the transport knows; NULL: the headers say, or there is none */
    bool small_events; /* the client does not take large ones */
    const struct mcp_outlet *outlet;
    void *user;
};

enum mcp_outcome {
    MCP_REPLIED, /* outlet->reply was called, or the message is the outlet's already */
    MCP_WAITS,   /* it will be called, unless the call is cancelled or abandoned before */
    MCP_SILENT   /* there is nothing to be said: 202 */
};

/* *ret_call: MCP_WAITS only. */
enum mcp_outcome mcp_receive(struct mcp *mcp, const struct mcp_input *input,
                             struct mcp_call **ret_call);
/* A tool called by its name, with its arguments as a JSON text; the answer is the bare result (or an error message). */
enum mcp_outcome mcp_receive_tool(struct mcp *mcp, const char *tool, const struct mcp_input *input,
                                  struct mcp_call **ret_call);
/* The client says that a session ends. False: there is none of this id. */
bool mcp_end_session(struct mcp *mcp, const char *session_id);
