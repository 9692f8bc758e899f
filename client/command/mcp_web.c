#include "command/mcp_web.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/failure.h"
#include "base/loopback.h"
#include "base/memory.h"
#include "command/mcp_events.h"
#include "husk.h"
#include "husk/limits.h"

enum {
    CONNECT_MILLISECONDS = 5000
};

struct web {
    CURLM *multi;
    char *url;
    char *key;   /* a header; NULL: none */
    bool direct; /* a proxy is not asked for what is on this machine */
    bool held;
    struct transfer *transfers;
};

enum body_kind {
    BODY_UNKNOWN, /* nothing of it has come */
    BODY_EVENTS,
    BODY_SINK,
    BODY_WHOLE
};

struct transfer {
    struct web *web;
    struct transfer *next, *previous;
    CURL *handle;
    curl_mime *form;
    struct transfer_order order;
    enum body_kind kind;
    bool paused;
    struct buffer body;
    struct events events;
    char why[CURL_ERROR_SIZE];
};

/* --- all of them -------------------------------------------------------------------------------- */

/* The library knows what an address is, where one is found if none is given, and what of it must not be repeated. */
static int read_url(const char *url, char **ret, struct failure *why)
{
    struct husk *husk;
    struct husk_error error;
    if (husk_new(&(struct husk_options){.url = url}, &husk, &error) < 0)
        return fail_plain(why, EINVAL, "%s", error.message);
    *ret = must_copy(husk_url(husk));
    husk_free(husk);
    return 0;
}

static bool is_local(const char *url)
{
    CURLU *parts = curl_url();
    char *host = NULL;
    bool local = parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
                 curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK && is_loopback(host);
    curl_free(host);
    curl_url_cleanup(parts);
    return local;
}

int web_new(const char *url, const char *api_key, struct web **ret, struct failure *why)
{
    _cleanup_free_ char *known = NULL;
    int r = read_url(url, &known, why);
    if (r < 0)
        return r;
    for (const char *c = api_key; c && *c; c++) {
        if (*c <= ' ' || *c > '~')
            return fail_plain(why, EINVAL, "the API key has characters that no key has");
    }
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return fail_plain(why, EIO, "libcurl cannot be used");
    struct web *web = must_alloc(sizeof *web);
    web->multi = curl_multi_init();
    husk_assert(web->multi != NULL);
    web->direct = is_local(known);
    web->url = TAKE_POINTER(known);
    web->key = api_key ? must_format("Authorization: Bearer %s", api_key) : NULL;
    *ret = web;
    return 0;
}

struct web *web_free(struct web *web)
{
    if (!web)
        return NULL;
    while (web->transfers)
        transfer_cancel(web->transfers);
    (void)curl_multi_cleanup(web->multi);
    curl_global_cleanup();
    free(web->url);
    free(web->key);
    free(web);
    return NULL;
}

const char *web_url(const struct web *web)
{
    return web->url;
}

void web_wait(struct web *web, struct curl_waitfd *others, unsigned count, int milliseconds)
{
    (void)curl_multi_poll(web->multi, others, count, milliseconds, NULL);
}

void web_hold(struct web *web, bool on)
{
    web->held = on;
    for (struct transfer *at = web->transfers; !on && at; at = at->next) {
        if (at->paused) {
            at->paused = false;
            (void)curl_easy_pause(at->handle, CURLPAUSE_CONT);
        }
    }
}

/* --- the end of one ----------------------------------------------------------------------------- */

struct transfer *transfer_cancel(struct transfer *transfer)
{
    if (!transfer)
        return NULL;
    struct web *web = transfer->web;
    if (transfer->previous)
        transfer->previous->next = transfer->next;
    else
        web->transfers = transfer->next;
    if (transfer->next)
        transfer->next->previous = transfer->previous;
    (void)curl_multi_remove_handle(web->multi, transfer->handle);
    curl_easy_cleanup(transfer->handle);
    curl_mime_free(transfer->form);
    curl_slist_free_all(transfer->order.headers);
    buffer_free(&transfer->body);
    events_free(&transfer->events);
    free(transfer);
    return NULL;
}

static bool says(const struct transfer *transfer, const char *type)
{
    const char *given = NULL;
    (void)curl_easy_getinfo(transfer->handle, CURLINFO_CONTENT_TYPE, &given);
    return given && strncasecmp(given, type, strlen(type)) == 0;
}

/* A file that was cut looks like a whole one unless the answer told where it ends. */
static bool tells_its_end(const struct transfer *transfer)
{
    struct curl_header *encoding = NULL;
    curl_off_t length = -1;
    (void)curl_easy_getinfo(transfer->handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    return length >= 0 || curl_easy_header(transfer->handle, "Transfer-Encoding", 0, CURLH_HEADER,
                                           -1, &encoding) == CURLHE_OK;
}

static void finish(struct transfer *transfer, CURLcode code)
{
    struct curl_header *session = NULL;
    if (code == CURLE_OK && transfer->order.sink && !tells_its_end(transfer))
        code = CURLE_PARTIAL_FILE;
    struct transfer_end end = {.code = code, .length = transfer->body.length};
    end.body = buffer_text(&transfer->body);
    end.why = *transfer->why ? transfer->why : curl_easy_strerror(code);
    end.json = says(transfer, "application/json") || says(transfer, "application/problem+json");
    (void)curl_easy_getinfo(transfer->handle, CURLINFO_RESPONSE_CODE, &end.status);
    if (curl_easy_header(transfer->handle, "Mcp-Session-Id", 0, CURLH_HEADER, -1, &session) ==
        CURLHE_OK)
        end.session = session->value;
    if (!end.body)
        end.body = "", end.length = 0;
    transfer->order.done(transfer->order.user, &end);
    transfer_cancel(transfer);
}

void web_work(struct web *web)
{
    int running, left;
    const CURLMsg *message;
    (void)curl_multi_perform(web->multi, &running);
    while ((message = curl_multi_info_read(web->multi, &left))) {
        struct transfer *transfer = NULL;
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
        finish(transfer, message->data.result);
    }
}

/* --- what libcurl calls ------------------------------------------------------------------------- */

static void on_event(void *user, const char *data, size_t length)
{
    struct transfer *transfer = user;
    if (transfer->order.message && length > 0)
        transfer->order.message(transfer->order.user, data, length);
}

static enum body_kind judge(const struct transfer *transfer)
{
    long status = 0;
    (void)curl_easy_getinfo(transfer->handle, CURLINFO_RESPONSE_CODE, &status);
    if (status == 200 && transfer->order.sink)
        return BODY_SINK;
    return says(transfer, "text/event-stream") ? BODY_EVENTS : BODY_WHOLE;
}

static size_t take_body(char *data, size_t one, size_t length, void *user)
{
    struct transfer *transfer = user;
    int r;
    if (transfer->web->held) {
        transfer->paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (transfer->kind == BODY_UNKNOWN)
        transfer->kind = judge(transfer);
    length *= one;
    if (transfer->kind == BODY_SINK)
        r = transfer->order.sink(transfer->order.user, data, length) ? 0 : -EIO;
    else if (transfer->kind == BODY_EVENTS)
        r = events_feed(&transfer->events, data, length);
    else
        r = buffer_append(&transfer->body, data, length);
    return r == 0 ? length : 0;
}

static size_t give_body(char *data, size_t one, size_t room, void *user)
{
    const struct transfer *transfer = user;
    ssize_t given = transfer->order.source(transfer->order.user, data, one * room);
    return given < 0 ? CURL_READFUNC_ABORT : (size_t)given;
}

static int take_progress(void *user, curl_off_t to_get, curl_off_t got, curl_off_t to_put,
                         curl_off_t put)
{
    const struct transfer *transfer = user;
    bool up = transfer->order.source != NULL;
    transfer->order.progress(transfer->order.user, (uint64_t)(up ? put : got),
                             (uint64_t)(up ? to_put : to_get));
    return 0;
}

/* --- the beginning ------------------------------------------------------------------------------ */

static CURLcode set_form(struct transfer *transfer)
{
    transfer->form = curl_mime_init(transfer->handle);
    curl_mimepart *part = transfer->form ? curl_mime_addpart(transfer->form) : NULL;
    if (!part)
        return CURLE_OUT_OF_MEMORY;
    CURLcode code = curl_mime_name(part, "file");
    if (code == CURLE_OK)
        code = curl_mime_filename(part, "archive");
    if (code == CURLE_OK)
        code = curl_mime_data_cb(part, (curl_off_t)transfer->order.total, give_body, NULL, NULL,
                                 transfer);
    return code == CURLE_OK ? curl_easy_setopt(transfer->handle, CURLOPT_MIMEPOST, transfer->form)
                            : code;
}

static CURLcode set_source(struct transfer *transfer)
{
    CURL *handle = transfer->handle;
    if (transfer->order.form)
        return set_form(transfer);
    (void)curl_easy_setopt(handle, CURLOPT_UPLOAD, 1L);
    (void)curl_easy_setopt(handle, CURLOPT_READFUNCTION, give_body);
    (void)curl_easy_setopt(handle, CURLOPT_READDATA, transfer);
    return curl_easy_setopt(handle, CURLOPT_INFILESIZE_LARGE, (curl_off_t)transfer->order.total);
}

static CURLcode set_body(struct transfer *transfer)
{
    CURL *handle = transfer->handle;
    const struct transfer_order *order = &transfer->order;
    CURLcode code = CURLE_OK;
    if (order->source)
        code = set_source(transfer);
    else if (order->body) {
        (void)curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)order->length);
        code = curl_easy_setopt(handle, CURLOPT_POSTFIELDS, order->body);
    }
    return code == CURLE_OK ? curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, order->method) : code;
}

static bool add_header(struct transfer *transfer, const char *text)
{
    struct curl_slist *longer = text ? curl_slist_append(transfer->order.headers, text) : NULL;
    if (longer)
        transfer->order.headers = longer;
    return longer || !text;
}

static CURLcode set_up(struct transfer *transfer)
{
    CURL *handle = transfer->handle;
    const struct transfer_order *order = &transfer->order;
    _cleanup_free_ char *url = must_format("%s%s", transfer->web->url, order->path);
    if (!add_header(transfer, transfer->web->key) || !add_header(transfer, "Expect:"))
        return CURLE_OUT_OF_MEMORY;
    (void)curl_easy_setopt(handle, CURLOPT_PRIVATE, transfer);
    (void)curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, transfer->why);
    (void)curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(handle, CURLOPT_PATH_AS_IS, 1L); /* ".." is for huskd to refuse */
    (void)curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(handle, CURLOPT_FRESH_CONNECT, 1L);
    (void)curl_easy_setopt(handle, CURLOPT_FORBID_REUSE, 1L);
    (void)curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MILLISECONDS);
    (void)curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, (long)order->milliseconds);
    (void)curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take_body);
    (void)curl_easy_setopt(handle, CURLOPT_WRITEDATA, transfer);
    if (transfer->web->direct)
        (void)curl_easy_setopt(handle, CURLOPT_PROXY, "");
    if (order->progress) {
        (void)curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
        (void)curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, take_progress);
        (void)curl_easy_setopt(handle, CURLOPT_XFERINFODATA, transfer);
    }
    CURLcode code = curl_easy_setopt(handle, CURLOPT_URL, url);
    if (code == CURLE_OK)
        code = set_body(transfer);
    return code == CURLE_OK ? curl_easy_setopt(handle, CURLOPT_HTTPHEADER, order->headers) : code;
}

struct transfer *transfer_start(struct web *web, const struct transfer_order *order)
{
    struct transfer *transfer = must_alloc(sizeof *transfer);
    transfer->web = web;
    transfer->order = *order;
    transfer->body.limit = MAX_BRIDGE_ANSWER_BYTES;
    events_init(&transfer->events, MAX_BRIDGE_ANSWER_BYTES, on_event, transfer);
    transfer->handle = curl_easy_init();
    transfer->next = web->transfers;
    if (web->transfers)
        web->transfers->previous = transfer;
    web->transfers = transfer;
    husk_assert(transfer->handle && set_up(transfer) == CURLE_OK &&
                curl_multi_add_handle(web->multi, transfer->handle) == CURLM_OK);
    return transfer;
}
