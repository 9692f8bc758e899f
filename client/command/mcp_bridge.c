#include "command/mcp_bridge.h"

#include <curl/curl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "command/mcp_local.h"
#include "command/mcp_schema.h"
#include "command/mcp_web.h"
#include "husk/limits.h"

enum {
    MAX_LOSSES = 3 /* then a call is given up that is never heard */
};

/* --- calls -------------------------------------------------------------------------------------- */

static struct call *call_new(struct bridge *bridge)
{
    struct call *call = must_alloc(sizeof *call);
    call->bridge = bridge;
    call->previous = bridge->last;
    if (bridge->last)
        bridge->last->next = call;
    else
        bridge->first = call;
    bridge->last = call;
    bridge->call_count++;
    return call;
}

void call_free(struct call *call)
{
    struct bridge *bridge = call->bridge;
    *(call->previous ? &call->previous->next : &bridge->first) = call->next;
    *(call->next ? &call->next->previous : &bridge->last) = call->previous;
    bridge->call_count--;
    local_free(call->local);
    transfer_cancel(call->transfer);
    transfer_cancel(call->canceller);
    message_free(&call->message);
    json_decref(call->answer);
    free(call->cancellation);
    free(call);
}

static bool expects_answer(const struct call *call)
{
    return call->message.kind == MESSAGE_REQUEST || call->message.kind == MESSAGE_BATCH;
}

static bool begins_session(const struct call *call)
{
    return !call->message.modern && message_is(&call->message, "initialize");
}

void call_answer(struct call *call, char *line)
{
    /* Whoever is told that it failed finds nothing of it. */
    local_free(TAKE_POINTER(call->local));
    if (call->on_answer) {
        json_auto_t *answer = line ? message_parse(line, strlen(line)) : NULL;
        call->on_answer(call->user, answer);
    } else if (line && !call->cancelled && expects_answer(call)) {
        lines_write(&call->bridge->lines, line, strlen(line));
    }
    free(line);
    call_free(call);
}

/* A batch is answered with as many errors as it has requests. */
static char *batch_error(const json_t *batch, int code, const char *text)
{
    json_auto_t *list = json_array();
    size_t i;
    json_t *item;
    json_array_foreach(batch, i, item)
    {
        json_t *id = json_object_get(item, "id");
        if (id && json_object_get(item, "method"))
            (void)json_array_append_new(list, json_pack("{s:s, s:O, s:{s:i, s:s}}", "jsonrpc",
                                                        "2.0", "id", id, "error", "code", code,
                                                        "message", text));
    }
    return json_array_size(list) ? json_dumps(list, JSON_COMPACT) : NULL;
}

void call_fail(struct call *call, int code, const char *format, ...)
{
    char text[MESSAGE_SENTENCE];
    va_list arguments;
    va_start(arguments, format);
    message_sentence(text, format, arguments);
    va_end(arguments);
    if (begins_session(call))
        mcp_session_answered(call->bridge, NULL, NULL);
    if (!expects_answer(call))
        log_event(LOG_WARNING, "a notification was not delivered", "method", call->message.method,
                  "why", text, NULL);
    call_answer(call, call->message.kind == MESSAGE_BATCH
                          ? batch_error(call->message.json, code, text)
                          : message_error(call->message.id, code, text));
}

/* --- answers ------------------------------------------------------------------------------------ */

static void write_raw(struct call *call, const char *text, size_t length)
{
    if (!call->cancelled && !call->on_answer)
        lines_write(&call->bridge->lines, text, length);
}

/* What its client is told may be a little more than what huskd said. */
static void write_answer(struct call *call, json_t *json, const char *text, size_t length)
{
    call->answered = true;
    call->answer = json_incref(json);
    if (!message_is(&call->message, "tools/list") || call->bridge->roots.count == 0)
        return write_raw(call, text, length);
    schema_add_local(json_object_get(json_object_get(json, "result"), "tools"));
    _cleanup_free_ char *line = json_dumps(json, JSON_COMPACT);
    if (line)
        write_raw(call, line, strlen(line));
}

/* A message of huskd, in an event or as the whole body. */
static void take_message(void *user, const char *text, size_t length)
{
    struct call *call = user;
    json_auto_t *json = message_parse(text, length);
    const json_t *id = json_object_get(json, "id");
    if (json_is_array(json) && call->message.kind == MESSAGE_BATCH) {
        call->answered = true;
        write_raw(call, text, length);
    } else if (json_object_get(json, "method")) {
        write_raw(call, text, length);
    } else if (id && !call->answered && json_equal(id, call->message.id)) {
        write_answer(call, json, text, length);
    } else if (json_is_object(json) && call->message.kind == MESSAGE_BATCH) {
        write_raw(call, text, length);
        call->answered = true;
    }
}

/* There was no answer to this very message: say what there was. */
static void fail_answer(struct call *call, const struct transfer_end *end)
{
    json_auto_t *json = end->json ? message_parse(end->body, end->length) : NULL;
    const json_t *error = json_object_get(json, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    const char *detail = json_string_value(json_object_get(json, "detail"));
    if (message)
        call_fail(call, (int)json_integer_value(json_object_get(error, "code")), "%s", message);
    else if (end->status == 401)
        call_fail(call, ERROR_INTERNAL,
                  "huskd at %s wants an API key: set HUSK_API_KEY, or start `husk mcp` with "
                  "--api-key-file.",
                  web_url(call->bridge->web));
    else if (detail)
        call_fail(call, ERROR_INTERNAL, "huskd refused this with HTTP status %ld: %s", end->status,
                  detail);
    else if (end->status == 202 || end->status == 200)
        call_fail(call, ERROR_INTERNAL, "huskd ended this call without an answer.");
    else
        call_fail(call, ERROR_INTERNAL,
                  "%s answered with HTTP status %ld and no message of MCP. Is it huskd?",
                  web_url(call->bridge->web), end->status);
}

static void fail_connection(struct call *call, const struct transfer_end *end)
{
    struct bridge *bridge = call->bridge;
    bool unheard = end->code == CURLE_COULDNT_CONNECT || end->code == CURLE_COULDNT_RESOLVE_HOST;
    if (unheard && service_refused(bridge) && ++call->losses < MAX_LOSSES)
        call->waiting = true;
    else if (unheard)
        call_fail(call, ERROR_INTERNAL, "%s", service_absent(bridge));
    else
        call_fail(call, ERROR_INTERNAL,
                  "The connection to huskd at %s broke before there was an answer (%s). What this "
                  "call began may have been done. When huskd runs again, look at the state of the "
                  "sandbox (sandboxes survive huskd), then repeat what is missing.",
                  web_url(bridge->web), end->why);
}

static bool session_unknown(const struct call *call, const struct transfer_end *end)
{
    json_auto_t *json =
        end->status == 404 && !call->message.modern ? message_parse(end->body, end->length) : NULL;
    const json_t *code = json_object_get(json_object_get(json, "error"), "code");
    return json_integer_value(code) == ERROR_SESSION_NOT_FOUND;
}

/* huskd listens, but does nothing yet. */
static bool is_starting(const struct transfer_end *end)
{
    json_auto_t *json =
        end->status == 503 && end->json ? message_parse(end->body, end->length) : NULL;
    const char *code = json_string_value(json_object_get(json, "code"));
    return code && strcmp(code, "starting") == 0;
}

static void finish_answered(struct call *call)
{
    if (call->on_answer)
        call->on_answer(call->user, call->answer);
    call_free(call);
}

static void call_done(void *user, const struct transfer_end *end)
{
    struct call *call = user;
    struct bridge *bridge = call->bridge;
    bool unknown = session_unknown(call, end);
    call->transfer = NULL;
    if (end->code == CURLE_OK && !call->answered && end->json && !unknown)
        take_message(call, end->body, end->length);
    if (call->answered && begins_session(call))
        mcp_session_answered(bridge, call->answer, end->session);
    if (call->answered)
        finish_answered(call);
    else if (call->cancelled || (end->status == 202 && !expects_answer(call)))
        call_free(call);
    else if (end->code != CURLE_OK)
        fail_connection(call, end);
    else if (unknown && ++call->losses < MAX_LOSSES) {
        call->waiting = true;
        mcp_session_forgotten(bridge, call->session);
    } else if (is_starting(end) && ++call->losses < MAX_LOSSES) {
        call->waiting = true;
        service_starts(bridge);
    } else
        fail_answer(call, end);
}

/* --- sending ------------------------------------------------------------------------------------ */

static struct curl_slist *add(struct curl_slist *list, char *text)
{
    struct curl_slist *longer = text ? curl_slist_append(list, text) : NULL;
    free(text);
    return longer ? longer : list;
}

static struct curl_slist *make_headers(const struct call *call)
{
    struct curl_slist *list = curl_slist_append(NULL, "Content-Type: application/json");
    list = add(list, must_copy("Accept: application/json, text/event-stream"));
    for (int i = 0; call->message.modern && i < HEADER_COUNT; i++)
        list = add(list, message_header(&call->message, (enum message_header)i));
    return call->message.modern || begins_session(call)
               ? list
               : mcp_session_headers(&call->bridge->session, list);
}

static void call_send(struct call *call)
{
    struct bridge *bridge = call->bridge;
    bool begins = begins_session(call);
    call->waiting = bridge->service.state == SERVICE_STARTING ||
                    (!call->message.modern && !begins && mcp_session_wait(bridge));
    if (call->waiting)
        return;
    if (begins)
        mcp_session_begin(bridge, &call->message);
    call->session = bridge->session.number;
    struct transfer_order order = {.method = "POST",
                                   .path = "/mcp",
                                   .headers = make_headers(call),
                                   .body = call->message.text,
                                   .length = call->message.length,
                                   .message = take_message,
                                   .done = call_done,
                                   .user = call};
    call->transfer = transfer_start(bridge->web, &order);
}

void bridge_release(struct bridge *bridge)
{
    for (struct call *call = bridge->first, *next; call; call = next) {
        next = call->next;
        if (call->waiting)
            call_send(call);
    }
}

/* From the beginning each time: the end of one may be the end of another. */
void bridge_fail_waiting(struct bridge *bridge, const char *text)
{
    for (struct call *call = bridge->first; call;) {
        if (call->waiting) {
            call->waiting = false;
            call_fail(call, ERROR_INTERNAL, "%s", text);
            call = bridge->first;
        } else {
            call = call->next;
        }
    }
}

struct call *bridge_call_tool(const struct call *of, const char *tool, json_t *arguments,
                              void (*on_answer)(void *user, json_t *answer), void *user)
{
    struct bridge *bridge = of->bridge;
    json_auto_t *meta = json_deep_copy(json_object_get(of->message.params, "_meta"));
    (void)json_object_del(meta, "progressToken");
    json_auto_t *json =
        json_pack("{s:s, s:o, s:s, s:{s:s, s:o, s:O*}}", "jsonrpc", "2.0", "id",
                  json_sprintf("husk-mcp-%llu", (unsigned long long)++bridge->own_ids), "method",
                  "tools/call", "params", "name", tool, "arguments", arguments, "_meta", meta);
    _cleanup_free_ char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    struct call *call = call_new(bridge);
    message_read(&call->message, text ? text : "", text ? strlen(text) : 0);
    call->on_answer = on_answer;
    call->user = user;
    call->waiting = true;
    return call;
}

/* --- cancelling --------------------------------------------------------------------------------- */

static void cancel_done(void *user, const struct transfer_end *end _unused_)
{
    struct call *call = user;
    call->canceller = NULL;
}

static void pass_cancellation(struct call *call)
{
    call->cancel_ms = now_ms() + BRIDGE_RETRY_MILLISECONDS;
    if (call->canceller)
        return;
    struct curl_slist *list = curl_slist_append(NULL, "Content-Type: application/json");
    struct transfer_order order = {.method = "POST",
                                   .path = "/mcp",
                                   .headers = mcp_session_headers(&call->bridge->session, list),
                                   .body = call->cancellation,
                                   .length = strlen(call->cancellation),
                                   .milliseconds = BRIDGE_GOODBYE_MILLISECONDS,
                                   .done = cancel_done,
                                   .user = call};
    call->canceller = transfer_start(call->bridge->web, &order);
}

static struct call *find_call(const struct bridge *bridge, const json_t *id)
{
    struct call *call = bridge->first;
    while (call && (call->on_answer || call->message.kind != MESSAGE_REQUEST || call->cancelled ||
                    !json_equal(call->message.id, id)))
        call = call->next;
    return call;
}

static void take_cancellation(struct bridge *bridge, struct message *message)
{
    const json_t *id = json_object_get(message->params, "requestId");
    struct call *call = id ? find_call(bridge, id) : NULL;
    if (!call || begins_session(call))
        return;
    call->cancelled = true;
    if (call->message.modern || !call->transfer)
        return call_free(call);
    call->cancellation = TAKE_POINTER(message->text);
    pass_cancellation(call);
}

void bridge_cancel_all(struct bridge *bridge)
{
    while (bridge->first)
        call_free(bridge->first);
}

/* --- lines -------------------------------------------------------------------------------------- */

void bridge_refuse_long(struct bridge *bridge)
{
    char text[120];
    (void)snprintf(text, sizeof text, "A message may have %d bytes; this one was left out.",
                   MAX_BRIDGE_LINE_BYTES);
    _cleanup_free_ char *line = message_error(NULL, ERROR_INVALID_REQUEST, text);
    log_event(LOG_WARNING, "a line of the client is too long", NULL);
    if (line)
        lines_write(&bridge->lines, line, strlen(line));
}

void bridge_take(struct bridge *bridge, const char *text, size_t length)
{
    struct call *call = call_new(bridge);
    struct message *message = &call->message;
    message_read(message, text, length);
    if (message->kind == MESSAGE_INVALID) {
        _cleanup_free_ char *line = message_error(message->id, message->code, message->fault);
        if (line)
            lines_write(&bridge->lines, line, strlen(line));
        call_free(call);
    } else if (message->kind == MESSAGE_NOTIFICATION &&
               message_is(message, "notifications/cancelled")) {
        take_cancellation(bridge, message);
        call_free(call);
    } else if (bridge->call_count > MAX_BRIDGE_CALLS) {
        call_fail(call, ERROR_INTERNAL,
                  "Too many calls wait for an answer. Try again in a moment.");
    } else if (local_wanted(message)) {
        local_begin(call);
    } else {
        call_send(call);
    }
}

/* --- time --------------------------------------------------------------------------------------- */

void bridge_lower(int *wait_ms, uint64_t now, uint64_t deadline)
{
    uint64_t left = deadline > now ? deadline - now : 0;
    if (deadline && left < (uint64_t)*wait_ms)
        *wait_ms = (int)left;
}

void bridge_tick(struct bridge *bridge, uint64_t now, int *wait_ms)
{
    for (struct call *call = bridge->first; call; call = call->next) {
        if (call->cancellation && call->cancel_ms <= now)
            pass_cancellation(call);
        if (call->cancellation)
            bridge_lower(wait_ms, now, call->cancel_ms);
    }
    mcp_session_tick(bridge, now, wait_ms);
    service_tick(bridge, now, wait_ms);
}
