#include "http/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "http/admission.h"
#include "http/error_page.h"
#include "http/peer.h"
#include "http/request.h"
#include "http/response.h"
#include "http/router.h"
#include "http/stream.h"
#include "http/tls.h"
#include "huskd/audit.h"
#include "huskd/caller.h"
#include "huskd/problem.h"
#include "huskd/service.h"
#include "loop/loop.h"
#include "mcp/listening.h"
#include "mcp/mcp.h"
#include "mcp/session.h"

enum {
    CLIENT_WENT_AWAY = 499, /* as nginx logs it; nobody reads it */
    LOGGED_PATH_BYTES = 256,
    CLIENT_TEXT_SIZE = 64,
    RECEIVE_STEP = RECEIVE_SECONDS * LEAST_UPLOAD_RATE /* bytes that have RECEIVE_SECONDS each */
};

struct server {
    struct service *service;
    const struct guard *guard;
    struct mcp *mcp;
    struct MHD_Daemon *daemon;
    struct source *source;
    struct peers *peers;
    struct request *requests;
    size_t open;
    size_t body_bytes; /* of all requests */
    bool running;      /* libmicrohttpd is */
    bool resumed;      /* something was, meanwhile */
    struct audit_limit strangers;
};

/* --- the body ----------------------------------------------------------------------------------- */

static void free_body(struct server *server, struct request *request)
{
    server->body_bytes -= request->body.length;
    buffer_free(&request->body);
}

static void refuse_body(struct server *server, struct request *request, enum problem_kind kind,
                        const char *sentence)
{
    struct problem problem;
    free_body(server, request);
    problem_set(&problem, kind, "%s", sentence);
    answer_problem(request, &problem);
}

/* A body that is refused is still read to its end: closing the connection under a client that is sending would lose the
 * answer. Up to a limit. */
static enum MHD_Result discard_body(struct request *request, size_t length)
{
    size_t limit = MAX_DISCARDED_BYTES;
    if (request->route && request->route->taker)
        limit = request->route->body_limit;
    request->discarded += length;
    return request->discarded > limit ? MHD_NO : MHD_YES;
}

static void collect_body(struct server *server, struct request *request, const char *data,
                         size_t length)
{
    size_t limit = request->json ? request->route->json_limit : request->route->body_limit;
    if (request->body.length + length > limit)
        refuse_body(server, request, PROBLEM_BODY_TOO_LARGE,
                    "The body is larger than this route takes.");
    else if (server->body_bytes + length > MAX_BUFFERED_BODIES_BYTES ||
             buffer_append(&request->body, data, length) < 0)
        refuse_body(server, request, PROBLEM_OUT_OF_MEMORY,
                    "Too many large requests at the same time. Try again in a moment.");
    else
        server->body_bytes += length;
}

/* --- the answer --------------------------------------------------------------------------------- */

static enum MHD_Result send_answer(struct request *request)
{
    request->phase = REQUEST_SENT;
    peer_allow(request->peer, SEND_SECONDS);
    if (request->stream)
        stream_begin(request->stream);
    return error_page_pass(request->connection, request->status, request->response);
}

static void client_went_away(void *user)
{
    struct request *request = user;
    struct problem problem;
    request_cancel(request);
    problem_set(&problem, PROBLEM_MALFORMED_REQUEST, "The client went away.");
    answer_problem(request, &problem);
    request->status = CLIENT_WENT_AWAY;
}

static void suspend(struct request *request)
{
    request->suspended = true;
    peer_allow(request->peer, 0);
    peer_watch(request->peer, client_went_away, request);
    MHD_suspend_connection(request->connection);
}

/* What is not taken is offered again when the connection is resumed. */
static size_t pass_body(struct server *server, struct request *request, const char *data,
                        size_t length)
{
    if (request->received + length > request->route->body_limit) {
        refuse_body(server, request, PROBLEM_BODY_TOO_LARGE,
                    "The body is larger than this route takes.");
        return length;
    }
    size_t taken = request->route->taker->take(request, data, length);
    /* A slow client may take as long as a slow line needs for a large body; a very slow one may not. */
    if ((request->received + taken) / RECEIVE_STEP != request->received / RECEIVE_STEP)
        peer_allow(request->peer, RECEIVE_SECONDS);
    request->received += taken;
    return request->phase == REQUEST_ANSWERED ? length : taken;
}

static void pause_body(struct request *request)
{
    if (request->phase == REQUEST_PAUSED && peer_left(request->peer))
        client_went_away(request);
    if (request->phase == REQUEST_PAUSED)
        suspend(request);
}

static enum MHD_Result take_body(struct server *server, struct request *request, const char *data,
                                 size_t *length)
{
    size_t offered = *length;
    *length = 0;
    if (request->phase == REQUEST_ANSWERED)
        return discard_body(request, offered);
    /* libmicrohttpd goes on to the next chunk of a body although the connection is suspended. */
    if (request->phase == REQUEST_PAUSED) {
        *length = offered;
        return MHD_YES;
    }
    if (!request->route->taker) {
        collect_body(server, request, data, offered);
        return MHD_YES;
    }
    *length = offered - pass_body(server, request, data, offered);
    pause_body(request);
    return MHD_YES;
}

static enum MHD_Result handle(struct server *server, struct request *request)
{
    husk_assert(request->phase == REQUEST_RECEIVING);
    request->phase = REQUEST_HANDLING;
    request->route->handle(request);
    free_body(server, request);
    if (request->phase == REQUEST_WAITING && peer_left(request->peer))
        client_went_away(request);
    if (request->phase == REQUEST_ANSWERED)
        return send_answer(request);
    husk_assert(request->phase == REQUEST_WAITING);
    suspend(request);
    return MHD_YES;
}

/* --- what libmicrohttpd calls ------------------------------------------------------------------- */

/* The request line is there. This is the only place that has the target as it was sent. */
static void *on_target(void *user, const char *target, struct MHD_Connection *connection)
{
    struct server *server = user;
    struct request *request = request_new(server, target ? target : "");
    request->connection = connection;
    request->service = server->service;
    request->peer =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    request->next = server->requests;
    if (server->requests)
        server->requests->previous = request;
    server->requests = request;
    server->open++;
    return request;
}

static enum MHD_Result begin(struct server *server, struct request *request, const char *method,
                             const char *version)
{
    (void)snprintf(request->method, sizeof request->method, "%s", method);
    request->phase = REQUEST_RECEIVING;
    peer_allow(request->peer, RECEIVE_SECONDS);
    request->line.method = method;
    request->line.version = version;
    bool admitted = admission_judge(request, server->guard);
    peer_hold(request->peer, admitted);
    if (admitted && request->route->taker)
        request->route->taker->begin(request);
    if (request->phase == REQUEST_ANSWERED && admission_refuses_body(request))
        return send_answer(request);
    husk_assert(request->phase != REQUEST_PAUSED);
    return MHD_YES;
}

/* Called with the headers, then with each part of the body, then at its end, and again when the connection is resumed. */
static enum MHD_Result on_request(void *user, struct MHD_Connection *connection _unused_,
                                  const char *url _unused_, const char *method, const char *version,
                                  const char *data, size_t *length, void **context)
{
    struct server *server = user;
    struct request *request = *context;
    if (request->phase == REQUEST_NEW)
        return begin(server, request, method, version);
    if (*length > 0)
        return take_body(server, request, data, length);
    if (request->phase == REQUEST_ANSWERED)
        return send_answer(request);
    return handle(server, request);
}

/* Where a request came from, as text. */
static void format_client(const struct request *request, char text[CLIENT_TEXT_SIZE])
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    *text = '\0';
    if (info && info->client_addr)
        (void)getnameinfo(info->client_addr, sizeof(struct sockaddr_storage), text,
                          CLIENT_TEXT_SIZE, NULL, 0, NI_NUMERICHOST);
}

/* Of requests without a key only so many get a line (huskd/audit.h). */
static void log_stranger(struct server *server, const struct request *request, const char *path)
{
    char client[CLIENT_TEXT_SIZE];
    size_t unsaid;
    if (!audit_may_tell(&server->strangers, &unsaid))
        return;
    bool denied = request->status == MHD_HTTP_UNAUTHORIZED;
    format_client(request, client);
    log_event(denied ? LOG_WARNING : LOG_INFO, denied ? "request denied" : "request", "audit",
              denied ? "denied" : NULL, "client", client, "method", request->method, "path", path,
              "status", request->status ? log_number(request->status) : NULL, "request",
              request->id, "unsaid", unsaid ? log_number((int64_t)unsaid) : NULL, NULL);
}

static void log_request(const struct request *request, enum MHD_RequestTerminationCode how)
{
    char path[LOGGED_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", request->path);
    if (!request->caller)
        return log_stranger(request->server, request, path);
    bool unsent = how != MHD_REQUEST_TERMINATED_COMPLETED_OK && request->status;
    uint64_t end = request->answered_ms ? request->answered_ms : now_ms();
    log_event(LOG_INFO, "request", "method", request->method, "path", path, "status",
              request->status ? log_number(request->status) : NULL, "ms",
              log_number((int64_t)(end - request->started_ms)), "request", request->id, "caller",
              request->caller->name, "link", request->by_link ? "yes" : NULL, "sandbox",
              *request->sandbox_text ? request->sandbox_text : NULL, "answer",
              unsent ? "not delivered" : NULL, NULL);
}

static void end_request(struct server *server, struct request *request)
{
    if (request->previous)
        request->previous->next = request->next;
    else
        server->requests = request->next;
    if (request->next)
        request->next->previous = request->previous;
    server->open--;
    if (request->stream)
        stream_leave(request->stream);
    peer_hold(request->peer, false);
    peer_allow(request->peer, CONNECTION_IDLE_SECONDS);
    free_body(server, request);
    request_free(request);
}

static void on_completed(void *user, struct MHD_Connection *connection _unused_, void **context,
                         enum MHD_RequestTerminationCode how)
{
    struct server *server = user;
    struct request *request = *context;
    if (!request)
        return;
    *context = NULL;
    /* Without a method libmicrohttpd refused it before we saw the headers. */
    if (*request->method)
        log_request(request, how);
    end_request(server, request);
}

/* Of a target with very many parameters libmicrohttpd runs out of memory for the connection, and does not tell us that the
 * request is over. */
static void forget_requests(struct server *server, const struct peer *peer)
{
    struct request *next;
    for (struct request *request = server->requests; request; request = next) {
        next = request->next;
        if (request->peer == peer && request->phase == REQUEST_NEW)
            end_request(server, request);
    }
}

static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct server *server = user;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *context = peer_add(server->peers, info->connect_fd);
    } else {
        forget_requests(server, *context);
        peer_remove(*context);
        *context = NULL;
    }
}

_printf_(2, 0) static void on_message(void *user _unused_, const char *format, va_list arguments)
{
    char text[512];
    (void)vsnprintf(text, sizeof text, format, arguments);
    text[strcspn(text, "\n")] = '\0';
    log_event(LOG_DEBUG, "libmicrohttpd", "says", text, NULL);
}

/* Paths are decoded by us, once, and only where a route says so. */
static size_t leave_escaped(void *user _unused_, struct MHD_Connection *connection _unused_,
                            char *text)
{
    return strlen(text);
}

/* --- on the loop -------------------------------------------------------------------------------- */

static void readable(struct source *source _unused_, uint32_t events _unused_, void *user _unused_)
{
    /* Only wakes the loop; run() does the work. */
}

/* After every round: callbacks may have resumed connections. */
static void run(void *user)
{
    struct server *server = user;
    MHD_UNSIGNED_LONG_LONG wait;
    server->running = true;
    (void)MHD_run(server->daemon);
    server->running = false;
    if (server->resumed)
        loop_wake_in(server->service->loop, 0);
    server->resumed = false;
    if (MHD_get_timeout(server->daemon, &wait) == MHD_YES)
        loop_wake_in(server->service->loop, wait);
}

/* Sandboxes need descriptors, too. */
static size_t connection_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 2 >= MAX_CONNECTIONS)
        return MAX_CONNECTIONS;
    return (size_t)limit.rlim_cur / 2;
}

static struct MHD_Daemon *start_daemon(struct server *server, bool tls, int listen_fd)
{
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem secure[TLS_OPTIONS] = {{MHD_OPTION_END, 0, NULL}};
    if (tls) {
        flags |= MHD_USE_TLS;
        tls_options(secure);
    }
    const struct MHD_OptionItem options[] = {
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)on_message, NULL}, /* first, as it must be */
        {MHD_OPTION_LISTEN_SOCKET, listen_fd, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)connection_limit(), NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY_BYTES, NULL},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)on_target, server},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)leave_escaped, NULL},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, server},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, server},
        {MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, NULL},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL}, /* raw_form.h */
        {MHD_OPTION_END, 0, NULL},
    };
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, server, MHD_OPTION_ARRAY, options,
                            MHD_OPTION_ARRAY, secure, MHD_OPTION_END);
}

struct server *server_new(struct service *service, const struct guard *guard, bool tls,
                          int listen_fd, struct failure *why)
{
    struct server *server = must_alloc(sizeof *server);
    server->service = service;
    server->guard = guard;
    server->peers = peers_new(service->loop, connection_limit());
    server->mcp = mcp_new(service);
    server->daemon = start_daemon(server, tls, listen_fd);
    if (!server->daemon) {
        close_fd(listen_fd);
        peers_free(server->peers);
        mcp_free(server->mcp);
        free(server);
        (void)fail_plain(why, EIO, "libmicrohttpd could not be started");
        return NULL;
    }
    int fd = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    server->source = source_add(service->loop, fd, EPOLLIN, readable, server);
    husk_assert(server->source != NULL);
    loop_before_wait(service->loop, run, server);
    return server;
}

void server_stop_listening(struct server *server)
{
    close_fd(MHD_quiesce_daemon(server->daemon));
}

/* libmicrohttpd looks at resumed connections only when it begins to run: what one request does to another while it runs would
 * wait for the next thing to happen. */
void server_resume(struct server *server, struct MHD_Connection *connection)
{
    server->resumed |= server->running;
    MHD_resume_connection(connection);
}

void server_keys_changed(struct server *server)
{
    session_end_keyless(server->mcp);
    listening_end_keyless(server->mcp);
}

struct mcp *server_mcp(const struct server *server)
{
    return server->mcp;
}

size_t server_waiting(const struct server *server)
{
    size_t count = 0;
    for (const struct request *request = server->requests; request; request = request->next)
        count += request_is_waiting(request) && !request->lingers;
    return count;
}

size_t server_unread(const struct server *server)
{
    size_t bytes = 0;
    for (const struct request *request = server->requests; request; request = request->next)
        bytes += request->answer_bytes;
    return bytes;
}

size_t server_open(const struct server *server)
{
    return server->open;
}

void server_dismiss(struct server *server)
{
    struct problem problem;
    problem_set(&problem, PROBLEM_SHUTTING_DOWN, "The service is stopping. Try again later.");
    mcp_say_goodbye(server->mcp);
    for (struct request *request = server->requests; request; request = request->next) {
        if (request->phase == REQUEST_WAITING || request->phase == REQUEST_PAUSED) {
            request_cancel(request);
            answer_problem(request, &problem);
        } else if (request_is_waiting(request)) {
            stream_dismiss(request->stream, &problem);
        }
    }
    mcp_dismiss(server->mcp); /* what goes on without its client, too */
}

struct server *server_free(struct server *server)
{
    if (!server)
        return NULL;
    loop_before_wait(server->service->loop, NULL, NULL);
    source_remove(server->source);
    MHD_stop_daemon(server->daemon);
    mcp_free(server->mcp);
    peers_free(server->peers);
    free(server);
    return NULL;
}
