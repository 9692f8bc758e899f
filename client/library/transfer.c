#include "library/transfer.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/text.h"
#include "husk/limits.h"
#include "library/client.h"
#include "library/complaint.h"

enum {
    PROGRESS_MS = 200,     /* between two calls */
    KEPT_SECONDS = 45,     /* for a connection: the service closes it after 60 */
    KEEPALIVE_SECONDS = 30 /* of TCP: a machine that is gone is noticed */
};

struct transfer {
    struct husk *husk;
    const struct exchange *exchange;
    struct answer *answer;
    struct husk_error *error;
    int result;        /* of a callback that failed, with `error` filled in */
    unsigned requests; /* sent, or begun */
    uint64_t active_ms;
    size_t header_bytes;
    bool headed; /* the headers of the answer are complete */
    uint64_t sent, received;
    uint64_t told_ms;
    char why[CURL_ERROR_SIZE];
};

/* --- progress ----------------------------------------------------------------------------------- */

static int cancel(struct transfer *transfer)
{
    transfer->result = complain(transfer->error, HUSK_ERROR_CANCELLED, "The call was cancelled.");
    return transfer->result;
}

static int tell(struct transfer *transfer, bool last)
{
    const struct husk *husk = transfer->husk;
    const struct exchange_upload *upload = transfer->exchange->upload;
    curl_off_t length = -1;
    uint64_t now = now_ms();
    if (!transfer->exchange->tells || !husk->progress ||
        (!last && now - transfer->told_ms < PROGRESS_MS))
        return 0;
    transfer->told_ms = now;
    if (!upload)
        (void)curl_easy_getinfo(husk->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    uint64_t total = upload && !upload->unknown ? upload->length
                     : length > 0               ? (uint64_t)length
                                                : 0;
    return husk->progress(upload ? transfer->sent : transfer->received, total, husk->progress_user)
               ? cancel(transfer)
               : 0;
}

/* --- what curl calls ---------------------------------------------------------------------------- */

/* Before each request that goes out. A second one means that curl found the connection ended and would try another; but
 * the first one may have arrived. */
static int before_request(void *user, char *remote _unused_, char *local _unused_,
                          int remote_port _unused_, int local_port _unused_)
{
    struct transfer *transfer = user;
    transfer->active_ms = now_ms();
    bool again = transfer->requests++ > 0;
    return again && (!transfer->exchange->reads || transfer->requests > HUSK_RETRIES)
               ? CURL_PREREQFUNC_ABORT
               : CURL_PREREQFUNC_OK;
}

static size_t supply(char *out, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    const struct exchange_upload *upload = transfer->exchange->upload;
    size_t room = size * count;
    uint64_t left = upload->length - transfer->sent;
    if (!upload->unknown && left < room)
        room = left;
    if (room == 0 || transfer->result < 0)
        return transfer->result < 0 ? CURL_READFUNC_ABORT : 0;
    ptrdiff_t got = upload->source(out, room, upload->user);
    transfer->active_ms = now_ms();
    if (got < 0 || (size_t)got > room) {
        /* A source of our own has said why already. */
        if (transfer->error->kind == 0)
            (void)complain(transfer->error, HUSK_ERROR_CANCELLED,
                           "The source of the upload gave up.");
        transfer->result = -(int)transfer->error->kind;
    } else if (got == 0 && !upload->unknown) {
        transfer->result =
            complain(transfer->error, HUSK_ERROR_FILE,
                     "What was to be uploaded ended after %llu of %llu bytes.",
                     (unsigned long long)transfer->sent, (unsigned long long)upload->length);
    } else {
        transfer->sent += (uint64_t)got;
        (void)tell(transfer, false);
    }
    return transfer->result < 0 ? CURL_READFUNC_ABORT : (size_t)got;
}

static int answer_status(const struct transfer *transfer)
{
    long status = 0;
    (void)curl_easy_getinfo(transfer->husk->easy, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

static int refuse_answer(struct transfer *transfer, const char *fault)
{
    transfer->result = complain(transfer->error, HUSK_ERROR_ANSWER, "The answer of %s %s.",
                                transfer->husk->url, fault);
    transfer->error->http_status = answer_status(transfer);
    return transfer->result;
}

static int keep(struct transfer *transfer, const char *data, size_t length)
{
    struct buffer *body = &transfer->answer->body;
    int status = answer_status(transfer);
    body->limit = status >= 200 && status < 300 ? CLIENT_ANSWER_BYTES : CLIENT_PROBLEM_BYTES;
    int r = buffer_append(body, data, length);
    if (r == -ENOSPC)
        return refuse_answer(transfer, "is larger than any of Husk's");
    if (r < 0)
        transfer->result = complain_memory(transfer->error);
    return transfer->result;
}

static bool has_no_length(const struct transfer *transfer)
{
    curl_off_t length = -1;
    (void)curl_easy_getinfo(transfer->husk->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    return length < 0 && !transfer->answer->chunked;
}

static size_t take(char *data, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    const struct exchange *exchange = transfer->exchange;
    size_t length = size * count;
    transfer->received += length;
    if (exchange->whole && answer_status(transfer) == 200 && has_no_length(transfer))
        (void)refuse_answer(transfer,
                            "does not say how long it is, so a part would look like all of it");
    else if (exchange->sink && answer_status(transfer) == 200)
        transfer->result = exchange->sink(exchange->user, data, length, transfer->error);
    else
        (void)keep(transfer, data, length);
    /* What the sink did, perhaps with a person, was not silence. */
    transfer->active_ms = now_ms();
    if (transfer->result == 0)
        (void)tell(transfer, false);
    return transfer->result == 0 ? length : length + 1;
}

/* The value of a header if it is this one, without white space around it. */
static bool header_value(const char *line, const char *name, char *out, size_t size)
{
    size_t length = strlen(name);
    if (strncasecmp(line, name, length) != 0 || line[length] != ':')
        return false;
    const char *value = line + length + 1;
    value += strspn(value, " \t");
    size_t end = strcspn(value, "\r\n");
    while (end > 0 && (value[end - 1] == ' ' || value[end - 1] == '\t'))
        end--;
    (void)snprintf(out, size, "%.*s", (int)(end < size ? end : size - 1), value);
    return true;
}

static void note_header(struct answer *answer, const char *line)
{
    char value[sizeof answer->type];
    uint64_t seconds;
    if (starts_with(line, "HTTP/")) {
        answer->retry_after = 0;
        answer->incomplete = answer->chunked = false;
        *answer->type = '\0';
    } else if (header_value(line, "Content-Type", value, sizeof value)) {
        memcpy(answer->type, value, sizeof value);
    } else if (header_value(line, "Retry-After", value, sizeof value)) {
        if (parse_u64(value, 0, MAX_TTL_SECONDS, &seconds) == 0)
            answer->retry_after = (int)seconds;
    } else if (header_value(line, "X-Husk-Incomplete", value, sizeof value)) {
        answer->incomplete = !strcasecmp(value, "true");
    } else if (header_value(line, "Transfer-Encoding", value, sizeof value)) {
        answer->chunked = !strcasecmp(value, "chunked");
    }
}

static size_t take_header(char *data, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    char line[512]; /* of a longer one the beginning: nothing that matters is so long */
    size_t length = size * count, copied = length < sizeof line ? length : sizeof line - 1;
    transfer->active_ms = now_ms();
    transfer->header_bytes += length;
    if (transfer->header_bytes > CLIENT_HEADER_BYTES) {
        (void)refuse_answer(transfer, "has headers that are larger than any of Husk's");
        return length + 1;
    }
    memcpy(line, data, copied);
    line[copied] = '\0';
    note_header(transfer->answer, line);
    /* Interim answers have headers, too. For curl a connection that ends among them is a good answer without a body. */
    if (starts_with(line, "HTTP/"))
        transfer->headed = false;
    else if (*line == '\r' || *line == '\n')
        transfer->headed = answer_status(transfer) >= 200;
    return length;
}

/* --- setting up --------------------------------------------------------------------------------- */

static void free_headers(struct curl_slist **headers)
{
    curl_slist_free_all(*headers);
}

static bool add_header(struct curl_slist **headers, const char *name, const char *value)
{
    char line[CLIENT_URL_BYTES];
    struct curl_slist *more = NULL;
    if (format_text(line, sizeof line, "%s%s", name, value) == 0)
        more = curl_slist_append(*headers, line);
    explicit_bzero(line, sizeof line);
    if (more)
        *headers = more;
    return more != NULL;
}

static bool make_headers(const struct transfer *transfer, struct curl_slist **ret)
{
    const struct exchange *exchange = transfer->exchange;
    const struct husk *husk = transfer->husk;
    const char *type = exchange->upload ? exchange->upload->type : "application/json";
    bool good =
        add_header(ret, "Accept: ", exchange->accept ? exchange->accept : "application/json");
    if (good && *husk->api_key)
        good = add_header(ret, "Authorization: Bearer ", husk->api_key);
    if (good && (exchange->body || exchange->upload))
        good = add_header(ret, "Content-Type: ", type);
    /* Large uploads wait for a word of the service, so that one it does not want is not sent. */
    if (good && !exchange->upload)
        good = add_header(ret, "Expect:", "");
    return good;
}

static void set_body(const struct transfer *transfer)
{
    const struct exchange *exchange = transfer->exchange;
    const struct exchange_upload *upload = exchange->upload;
    CURL *easy = transfer->husk->easy;
    if (upload) {
        (void)curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, supply);
        (void)curl_easy_setopt(easy, CURLOPT_READDATA, transfer);
        (void)curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE,
                               upload->unknown ? (curl_off_t)-1 : (curl_off_t)upload->length);
        (void)curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 256L * KIB);
    } else if (exchange->body) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                               (curl_off_t)strlen(exchange->body));
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, exchange->body);
    }
    (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, exchange->method);
}

static void set_connection(const struct husk *husk)
{
    CURL *easy = husk->easy;
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_SECONDS);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_SECONDS);
    (void)curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)KEPT_SECONDS);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                           (long)(husk->connect_timeout * 1000) + 1);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT, husk->user_agent);
    if (husk->loopback)
        (void)curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    if (husk->ca_file)
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, husk->ca_file);
}

static void set_callbacks(struct transfer *transfer)
{
    CURL *easy = transfer->husk->easy;
    (void)curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, before_request);
    (void)curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->why);
}

/* --- driving ------------------------------------------------------------------------------------ */

/* Milliseconds that may still pass in silence. While it connects curl has a limit of its own. */
static int64_t patience_left(const struct transfer *transfer)
{
    double seconds = transfer->husk->timeout;
    if (transfer->exchange->patience > seconds)
        seconds = transfer->exchange->patience;
    if (transfer->requests == 0)
        return INT32_MAX;
    return (int64_t)(seconds * 1000) - (int64_t)(now_ms() - transfer->active_ms);
}

static int wait_for_more(struct transfer *transfer)
{
    struct husk *husk = transfer->husk;
    struct curl_waitfd wake = {.fd = husk->wake, .events = CURL_WAIT_POLLIN};
    int64_t left = patience_left(transfer);
    if (left <= 0)
        return transfer->result =
                   complain(transfer->error, HUSK_ERROR_TIMEOUT,
                            "%s has been silent for too long. What was asked for may "
                            "have happened, or not.",
                            husk->url);
    (void)curl_multi_poll(husk->multi, &wake, 1, left < INT32_MAX ? (int)left : INT32_MAX, NULL);
    /* Awake without a reason: a remainder of husk_cancel(). */
    if (wake.revents)
        client_settle(husk);
    return 0;
}

/* Until curl is done with it: its result. Else transfer->result is set. */
static CURLcode drive(struct transfer *transfer)
{
    struct husk *husk = transfer->husk;
    int running = 1;
    while (running && transfer->result == 0) {
        if (client_take_cancel(husk))
            (void)cancel(transfer);
        else if (curl_multi_perform(husk->multi, &running) != CURLM_OK)
            transfer->result = complain_memory(transfer->error);
        else if (running && transfer->result == 0)
            (void)wait_for_more(transfer);
    }
    if (transfer->result < 0) {
        /* A resolver that hangs must not hold up whoever does not want to wait. */
        (void)curl_easy_setopt(husk->easy, CURLOPT_QUICK_EXIT, 1L);
        return CURLE_ABORTED_BY_CALLBACK;
    }
    int left;
    const struct CURLMsg *message = curl_multi_info_read(husk->multi, &left);
    return message && message->msg == CURLMSG_DONE ? message->data.result : CURLE_RECV_ERROR;
}

static int judge(struct transfer *transfer, CURLcode code)
{
    const char *url = transfer->husk->url;
    const char *why = *transfer->why ? transfer->why : curl_easy_strerror(code);
    switch (code) {
    case CURLE_OK:
        if (transfer->headed)
            return 0;
        why = "among its headers";
        break;
    case CURLE_OUT_OF_MEMORY:
        /* Older curls say this of a header line that is longer than they take, too. */
        return transfer->requests > 0 && transfer->received == 0
                   ? refuse_answer(transfer, "has headers that are larger than any of Husk's")
                   : complain_memory(transfer->error);
    case CURLE_SSL_CACERT_BADFILE:
        return complain(transfer->error, HUSK_ERROR_FILE,
                        "The certificates to trust cannot be read: %s.", why);
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
#if LIBCURL_VERSION_NUM >= 0x080600
    case CURLE_TOO_LARGE:
#endif
    case CURLE_BAD_CONTENT_ENCODING:
        return refuse_answer(transfer, "is not what HTTP allows");
    default:
        break;
    }
    if (transfer->requests == 0)
        return complain(transfer->error, HUSK_ERROR_CONNECT,
                        "There is no service that answers at %s: %s. Is huskd running there?", url,
                        why);
    return complain(transfer->error, HUSK_ERROR_BROKEN,
                    "The connection to %s ended before the answer did (%s). What was asked for may "
                    "have happened, or not.",
                    url, why);
}

static int perform(struct transfer *transfer)
{
    struct husk *husk = transfer->husk;
    if (curl_multi_add_handle(husk->multi, husk->easy) != CURLM_OK)
        return complain_memory(transfer->error);
    CURLcode code = drive(transfer);
    transfer->answer->status = answer_status(transfer);
    int r = transfer->result < 0 ? transfer->result : judge(transfer, code);
    (void)curl_multi_remove_handle(husk->multi, husk->easy);
    return r == 0 && transfer->answer->status >= 200 && transfer->answer->status < 300
               ? tell(transfer, true)
               : r;
}

int transfer_run(struct husk *husk, const struct exchange *exchange, struct answer *answer,
                 struct husk_error *error)
{
    _cleanup_(free_headers) struct curl_slist *headers = NULL;
    _cleanup_buffer_ struct buffer url = {0};
    struct transfer transfer = {
        .husk = husk, .exchange = exchange, .answer = answer, .error = error};
    *error = (struct husk_error){0};
    if (buffer_append_text(&url, husk->url) < 0 || buffer_append_text(&url, exchange->path) < 0 ||
        !buffer_text(&url) || !make_headers(&transfer, &headers))
        return complain_memory(error);
    curl_easy_reset(husk->easy);
    set_connection(husk);
    set_callbacks(&transfer);
    set_body(&transfer);
    (void)curl_easy_setopt(husk->easy, CURLOPT_HTTPHEADER, headers);
    if (curl_easy_setopt(husk->easy, CURLOPT_URL, url.data) != CURLE_OK)
        return complain_memory(error);
    int r = perform(&transfer);
    /* The handle must not remember what lived on this stack. */
    curl_easy_reset(husk->easy);
    return r;
}
