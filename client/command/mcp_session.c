#include "command/mcp_session.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "command/mcp_bridge.h"
#include "command/mcp_web.h"
#include "husk/limits.h"

/* --- headers ------------------------------------------------------------------------------------ */

static struct curl_slist *add(struct curl_slist *list, const char *name, const char *value)
{
    if (!value)
        return list;
    _cleanup_free_ char *text = must_format("%s: %s", name, value);
    struct curl_slist *longer = curl_slist_append(list, text);
    return longer ? longer : list;
}

struct curl_slist *mcp_session_headers(const struct mcp_session *session, struct curl_slist *list)
{
    list = add(list, "Mcp-Session-Id", session->id);
    return add(list, "MCP-Protocol-Version", session->version);
}

/* What goes into a header must not have ends of lines, whoever said it. */
static char *copy_visible(const char *text)
{
    for (const char *c = text; c && *c; c++) {
        if (*c <= ' ' || *c > '~')
            return NULL;
    }
    return text && strlen(text) <= MAX_MCP_ID_BYTES ? must_copy(text) : NULL;
}

static void ignore_end(void *user _unused_, const struct transfer_end *end _unused_)
{
}

/* --- its end ------------------------------------------------------------------------------------ */

static void forget(struct mcp_session *session)
{
    session->renewal = transfer_cancel(session->renewal);
    session->stream = transfer_cancel(session->stream);
    session->stream_ms = 0;
    free(TAKE_POINTER(session->id));
    free(TAKE_POINTER(session->version));
}

static void farewell_done(void *user, const struct transfer_end *end _unused_)
{
    struct bridge *bridge = user;
    bridge->session.farewell = NULL;
}

bool mcp_session_end(struct bridge *bridge)
{
    struct mcp_session *session = &bridge->session;
    if (session->id && session->state == SESSION_OPEN && !session->farewell) {
        struct transfer_order order = {.method = "DELETE",
                                       .path = "/mcp",
                                       .headers = mcp_session_headers(session, NULL),
                                       .milliseconds = BRIDGE_GOODBYE_MILLISECONDS,
                                       .done = farewell_done,
                                       .user = bridge};
        session->farewell = transfer_start(bridge->web, &order);
    }
    session->state = SESSION_NONE;
    forget(session);
    return session->farewell != NULL;
}

void mcp_session_free(struct mcp_session *session)
{
    forget(session);
    session->farewell = transfer_cancel(session->farewell);
    free(TAKE_POINTER(session->handshake));
}

/* --- the stream --------------------------------------------------------------------------------- */

static void stream_message(void *user, const char *text, size_t length)
{
    struct bridge *bridge = user;
    json_auto_t *json = message_parse(text, length);
    if (json_object_get(json, "method"))
        lines_write(&bridge->lines, text, length);
}

/* A session that is gone is noticed here, too, but there is no hurry to have another. */
static void stream_done(void *user, const struct transfer_end *end)
{
    struct bridge *bridge = user;
    struct mcp_session *session = &bridge->session;
    session->stream = NULL;
    if (end->status == 404)
        session->state = SESSION_LOST;
    else if (end->status != 405)
        session->stream_ms = now_ms() + BRIDGE_RETRY_MILLISECONDS;
}

static void open_stream(struct bridge *bridge)
{
    struct mcp_session *session = &bridge->session;
    struct curl_slist *list = curl_slist_append(NULL, "Accept: text/event-stream");
    struct transfer_order order = {.method = "GET",
                                   .path = "/mcp",
                                   .headers = mcp_session_headers(session, list),
                                   .message = stream_message,
                                   .done = stream_done,
                                   .user = bridge};
    session->stream_ms = 0;
    if (session->id && !session->stream)
        session->stream = transfer_start(bridge->web, &order);
    else
        curl_slist_free_all(order.headers);
}

void mcp_session_tick(struct bridge *bridge, uint64_t now, int *wait_ms)
{
    struct mcp_session *session = &bridge->session;
    if (session->stream_ms && session->stream_ms <= now)
        open_stream(bridge);
    bridge_lower(wait_ms, now, session->stream_ms);
}

/* --- its beginning ------------------------------------------------------------------------------ */

void mcp_session_begin(struct bridge *bridge, const struct message *message)
{
    struct mcp_session *session = &bridge->session;
    if (session->state == SESSION_OPEN)
        (void)mcp_session_end(bridge);
    forget(session);
    free(session->handshake);
    session->handshake = must_format("%s", message->text);
    session->handshake_length = strlen(session->handshake);
    session->state = SESSION_BEGINNING;
}

void mcp_session_answered(struct bridge *bridge, const json_t *answer, const char *id)
{
    struct mcp_session *session = &bridge->session;
    const json_t *result = json_object_get(answer, "result");
    const char *version = json_string_value(json_object_get(result, "protocolVersion"));
    forget(session);
    session->state = version ? SESSION_OPEN : SESSION_NONE;
    if (version) {
        session->number++;
        session->version = copy_visible(version);
        session->id = copy_visible(id);
        open_stream(bridge);
    }
    bridge_release(bridge);
}

/* --- once more ---------------------------------------------------------------------------------- */

/* huskd asks for it; that nobody answers is no reason to worry. */
static void confirm(struct bridge *bridge)
{
    static const char text[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
    struct curl_slist *list = curl_slist_append(NULL, "Content-Type: application/json");
    struct transfer_order order = {.method = "POST",
                                   .path = "/mcp",
                                   .headers = mcp_session_headers(&bridge->session, list),
                                   .body = text,
                                   .length = strlen(text),
                                   .milliseconds = BRIDGE_GOODBYE_MILLISECONDS,
                                   .done = ignore_end};
    (void)transfer_start(bridge->web, &order);
}

static void give_up(struct bridge *bridge, const char *text)
{
    bridge->session.state = SESSION_LOST;
    bridge_fail_waiting(bridge, text);
}

static void renewed(void *user, const struct transfer_end *end)
{
    struct bridge *bridge = user;
    json_auto_t *answer = message_parse(end->body, end->length);
    bridge->session.renewal = NULL;
    if (end->code == CURLE_COULDNT_CONNECT && service_refused(bridge)) {
        bridge->session.state = SESSION_LOST; /* what waits tries again when it is there */
    } else if (end->code != CURLE_OK) {
        give_up(bridge, service_absent(bridge));
    } else if (!json_object_get(answer, "result")) {
        give_up(bridge, "huskd has forgotten the session and does not begin another one.");
    } else {
        log_event(LOG_INFO, "huskd had forgotten the session; a new one has begun", NULL);
        mcp_session_answered(bridge, answer, end->session);
        confirm(bridge);
    }
}

static void renew(struct bridge *bridge)
{
    struct mcp_session *session = &bridge->session;
    struct curl_slist *list = curl_slist_append(NULL, "Content-Type: application/json");
    list = add(list, "Accept", "application/json, text/event-stream");
    struct transfer_order order = {.method = "POST",
                                   .path = "/mcp",
                                   .headers = list,
                                   .body = session->handshake,
                                   .length = session->handshake_length,
                                   .done = renewed,
                                   .user = bridge};
    forget(session);
    session->state = SESSION_BEGINNING;
    session->renewal = transfer_start(bridge->web, &order);
}

bool mcp_session_wait(struct bridge *bridge)
{
    if (bridge->session.state == SESSION_LOST && bridge->service.state != SERVICE_STARTING)
        renew(bridge);
    return bridge->session.state == SESSION_BEGINNING || bridge->session.state == SESSION_LOST;
}

void mcp_session_forgotten(struct bridge *bridge, uint64_t number)
{
    struct mcp_session *session = &bridge->session;
    if (session->number == number && session->state == SESSION_OPEN)
        session->state = SESSION_LOST;
    bridge_release(bridge);
}
