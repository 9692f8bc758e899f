#include "http/request.h"

#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/failure.h"
#include "base/memory.h"
#include "base/text.h"
#include "http/peer.h"
#include "http/response.h"
#include "http/server.h"
#include "http/stream.h"
#include "huskd/problem.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "huskd/uri.h"
#include "loop/loop.h"

/* "http://host/path", as clients write it to a proxy, is "/path" to us. */
static const char *without_authority(const char *target)
{
    const char *authority = strncasecmp(target, "http", 4) == 0 ? strstr(target, "://") : NULL;
    const char *path = authority ? strchr(authority + strlen("://"), '/') : NULL;
    return path ? path : target;
}

struct request *request_new(struct server *server, const char *target)
{
    struct request *request = must_alloc(sizeof *request);
    request->server = server;
    request->started_ms = now_ms();
    request->path = must_copy(without_authority(target));
    request->query = strchr(request->path, '?');
    if (request->query)
        *request->query++ = '\0';
    return request;
}

void request_free(struct request *request)
{
    husk_assert(request->phase != REQUEST_WAITING && request->phase != REQUEST_PAUSED);
    if (request->own_free)
        request->own_free(request->own);
    if (request->response)
        MHD_destroy_response(request->response);
    else if (request->stream)
        stream_free(request->stream);
    buffer_free(&request->body);
    free(request->path);
    free(request);
}

const char *request_header(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

bool request_query_flag(const struct request *request, const char *key, bool *value,
                        struct problem *problem)
{
    char text[32];
    int r = uri_query(request->query, key, text, sizeof text);
    if (r == 0)
        return true;
    if (r > 0)
        r = parse_bool(text, value);
    if (r < 0)
        problem_set(problem, PROBLEM_INVALID_FIELD, "%s must be 1 or 0.", key);
    return r >= 0;
}

const char *request_file_path(const struct request *request)
{
    static const char home[] = "/home/user/";
    const char *path = request->second_parameter;
    return starts_with(path, home) ? path + strlen(home) : path;
}

bool request_find_sandbox(struct request *request)
{
    struct problem problem;
    request->sandbox = service_find(request->service, request->parameter, &problem);
    if (!request->sandbox) {
        answer_problem(request, &problem);
        return false;
    }
    memcpy(request->sandbox_text, request->sandbox->text, sizeof request->sandbox_text);
    return true;
}

void request_pause(struct request *request, void (*cancel)(struct request *request))
{
    husk_assert(request->phase == REQUEST_RECEIVING);
    request->phase = REQUEST_PAUSED;
    request->cancel = cancel;
}

static void resume(struct request *request)
{
    if (!request->suspended)
        return;
    request->suspended = false;
    peer_watch(request->peer, NULL, NULL);
    server_resume(request->server, request->connection);
}

void request_go_on(struct request *request)
{
    husk_assert(request->phase == REQUEST_PAUSED);
    request->phase = REQUEST_RECEIVING;
    request->cancel = NULL;
    peer_allow(request->peer, RECEIVE_SECONDS);
    resume(request);
}

void request_wait(struct request *request, void (*cancel)(struct request *request))
{
    husk_assert(request->phase == REQUEST_HANDLING);
    request->phase = REQUEST_WAITING;
    request->cancel = cancel;
}

static void add_common_headers(const struct request *request, struct MHD_Response *response)
{
    (void)MHD_add_response_header(response, "X-Request-Id", request->id);
    if (!MHD_get_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL))
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (request->service->phase == SERVICE_STOPPING)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (request->shared) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN,
                                      request_header(request, MHD_HTTP_HEADER_ORIGIN));
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ORIGIN);
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_EXPOSE_HEADERS,
                                      "X-Request-Id, Retry-After, ETag, Content-Range, "
                                      "Content-Disposition, X-Husk-Incomplete");
    }
}

void request_answer(struct request *request, unsigned status, struct MHD_Response *response)
{
    husk_assert(request->phase < REQUEST_ANSWERED && response != NULL);
    add_common_headers(request, response);
    request->status = status;
    request->response = response;
    request->answered_ms = now_ms();
    request->phase = REQUEST_ANSWERED;
    request->timer = timer_remove(request->timer);
    json_decref(request->collected);
    request->collected = NULL;
    resume(request);
}

bool request_is_waiting(const struct request *request)
{
    return request->phase == REQUEST_WAITING || request->phase == REQUEST_PAUSED ||
           (request->phase > REQUEST_WAITING && request->stream && stream_is_open(request->stream));
}

void request_cancel(struct request *request)
{
    husk_assert(request->phase == REQUEST_WAITING || request->phase == REQUEST_PAUSED);
    if (request->cancel)
        request->cancel(request);
    request->cancel = NULL;
}
