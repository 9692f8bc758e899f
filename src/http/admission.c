#include "http/admission.h"

#include <stdio.h>
#include <string.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/text.h"
#include "http/guard.h"
#include "http/link_access.h"
#include "http/raw_form.h"
#include "http/request.h"
#include "http/response.h"
#include "http/router.h"
#include "http/routes.h"
#include "huskd/caller.h"
#include "huskd/config.h"
#include "huskd/keyring.h"
#include "huskd/problem.h"
#include "huskd/service.h"
#include "huskd/uri.h"

/* --- the parts of a request --------------------------------------------------------------------- */

static bool sane_request_id(const char *text)
{
    size_t length = strlen(text);
    return length >= 1 && length <= MAX_REQUEST_ID_LENGTH &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:+/=@-") ==
               length;
}

static void choose_request_id(struct request *request)
{
    const char *given = request_header(request, "X-Request-Id");
    char fresh[ID_TEXT_SIZE];
    if (!given || !sane_request_id(given)) {
        id_format(id_new(), fresh);
        given = fresh;
    }
    (void)snprintf(request->id, sizeof request->id, "%s", given);
}

static bool is_json(const struct request *request)
{
    static const char json[] = "application/json";
    const char *type = request_header(request, MHD_HTTP_HEADER_CONTENT_TYPE);
    if (!type || strncasecmp(type, json, strlen(json)) != 0)
        return false;
    const char *rest = type + strlen(json);
    rest += strspn(rest, " \t");
    return *rest == '\0' || *rest == ';';
}

static size_t body_limit(const struct request *request)
{
    return request->json ? request->route->json_limit : request->route->body_limit;
}

/* Content-Length; 0 if there is none. libmicrohttpd has checked that it is a number. */
static uint64_t announced_length(const struct request *request)
{
    uint64_t length = 0;
    const char *text = request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (text)
        (void)parse_u64(text, 0, UINT64_MAX, &length);
    return length;
}

struct count {
    const char *name;
    unsigned found;
};

static enum MHD_Result count_header(void *user, enum MHD_ValueKind kind _unused_, const char *key,
                                    const char *value _unused_)
{
    struct count *count = user;
    count->found += same_ignoring_case(key, count->name);
    return MHD_YES;
}

static unsigned times_sent(const struct request *request, const char *name)
{
    struct count count = {.name = name};
    (void)MHD_get_connection_values(request->connection, MHD_HEADER_KIND, count_header, &count);
    return count.found;
}

/* --- the checks, in order ----------------------------------------------------------------------- */

static bool refuse_form(struct problem *problem, const char *what)
{
    problem_set(problem, PROBLEM_MALFORMED_REQUEST, "This request is not well-formed: %s.", what);
    return false;
}

/* How long the body is must be said once, and in one way. */
static bool check_framing(const struct request *request, struct problem *problem)
{
    static const char *const single[] = {MHD_HTTP_HEADER_HOST, MHD_HTTP_HEADER_CONTENT_LENGTH,
                                         MHD_HTTP_HEADER_TRANSFER_ENCODING,
                                         MHD_HTTP_HEADER_AUTHORIZATION, "X-API-Key"};
    for (size_t i = 0; i < ARRAY_LENGTH(single); i++) {
        if (times_sent(request, single[i]) > 1) {
            problem_set(problem, PROBLEM_MALFORMED_REQUEST, "%s may be sent only once.", single[i]);
            return false;
        }
    }
    const char *encoding = request_header(request, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    const char *length = request_header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (encoding && length)
        return refuse_form(problem, "Content-Length and Transfer-Encoding exclude each other");
    if (encoding && !same_ignoring_case(encoding, "chunked"))
        return refuse_form(problem, "Transfer-Encoding must be 'chunked' if it is sent");
    if (length && (!*length || strspn(length, "0123456789") != strlen(length)))
        return refuse_form(problem, "Content-Length must be a number");
    return true;
}

/* What two servers in a row might read differently is refused, and nothing more is read from such a connection. */
static bool check_form(struct request *request, struct problem *problem)
{
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (size && size->header_size > MAX_HEADER_BYTES) {
        problem_set(problem, PROBLEM_HEADERS_TOO_LARGE,
                    "The request line and headers have %zu bytes; at most %d are taken.",
                    size->header_size, MAX_HEADER_BYTES);
        return false;
    }
    const char *fault = raw_form_fault(request->connection, &request->line);
    if (fault)
        return refuse_form(problem, fault);
    const char *host = request_header(request, MHD_HTTP_HEADER_HOST);
    if (request->authority && (!host || !same_ignoring_case(request->authority, host)))
        return refuse_form(problem, "its target names another host than the Host header");
    return check_framing(request, problem);
}

/* A signed link does instead of the key: who has one is as its sandbox's owner, for this. A bad one is as none, but somebody who
 * needs no key is told about it, and so is who had a good one. */
static bool check_key(struct request *request, struct problem *problem)
{
    struct caller *owner = NULL;
    enum link_verdict link =
        request->route->linked ? link_access_judge(request, &owner) : LINK_ABSENT;
    bool known = request->caller != NULL;
    if (link == LINK_GOOD) {
        request->caller = owner;
        request->by_link = true;
        return true;
    }
    if (known && (config_has_keys(request->service->config) || link == LINK_ABSENT))
        return true;
    if (link == LINK_EXPIRED)
        problem_set(problem, PROBLEM_LINK_EXPIRED,
                    "This link has expired. Ask for the file with the API key, or run the code "
                    "again to get a new link.");
    else if (known)
        problem_set(problem, PROBLEM_LINK_INVALID,
                    "This link was not signed by this sandbox: expires or signature is wrong.");
    return false;
}

static bool check_client(struct request *request, const struct guard *guard,
                         struct problem *problem)
{
    const struct credentials credentials = {
        .host = request_header(request, MHD_HTTP_HEADER_HOST),
        .origin = request_header(request, MHD_HTTP_HEADER_ORIGIN),
        .authorization = request_header(request, MHD_HTTP_HEADER_AUTHORIZATION),
        .api_key = request_header(request, "X-API-Key"),
    };
    if (!guard_admits(guard, &credentials, problem))
        return false;
    request->shared = credentials.origin && guard_shares_with(guard, credentials.origin);
    request->caller = guard_caller(guard, &credentials, problem);
    /* A preflight never carries the key. */
    bool preflight = request->shared && !strcmp(request->method, "OPTIONS");
    if (preflight || (request->route && request->route->open))
        return true;
    return request->route ? check_key(request, problem) : request->caller != NULL;
}

/* Requests that need no key, or come by a link, are on nobody's account. */
static bool check_rate(const struct request *request, struct problem *problem)
{
    unsigned seconds;
    if (!request->caller || request->by_link || (request->route && request->route->open) ||
        caller_may_ask(request->caller, now_ms(), &seconds))
        return true;
    problem_set(problem, PROBLEM_RATE_LIMITED,
                "This API key may send %llu requests a second. Try again in %u seconds.",
                (unsigned long long)request->caller->quotas.requests_per_second, seconds);
    problem->retry_after = seconds;
    return false;
}

/* Parameters, decoded once. False: one is too long or not well-formed; it is empty then. */
static bool decode_parameters(struct request *request, const struct route_match *match)
{
    struct {
        char *out;
        size_t size;
    } places[ROUTE_PARAMETERS] = {
        {request->parameter, sizeof request->parameter},
        {request->second_parameter, sizeof request->second_parameter},
    };
    bool good = true;
    for (size_t i = 0; i < ROUTE_PARAMETERS; i++) {
        const struct route_parameter *parameter = &match->parameters[i];
        if (parameter->text &&
            uri_decode(parameter->text, parameter->length, places[i].out, places[i].size) < 0) {
            places[i].out[0] = '\0';
            good = false;
        }
    }
    return good;
}

/* The same for a route that has them in its query. What is not there stays empty. */
static bool decode_query(struct request *request)
{
    struct {
        const char *key;
        char *out;
        size_t size;
    } places[] = {
        {"sandbox_name", request->parameter, sizeof request->parameter},
        {"sandbox_id", request->parameter, sizeof request->parameter},
        {"file_path", request->second_parameter, sizeof request->second_parameter},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(places); i++) {
        if (uri_query(request->query, places[i].key, places[i].out, places[i].size) < 0) {
            places[i].out[0] = '\0';
            return false;
        }
    }
    return true;
}

static bool check_route(struct request *request, enum route_result found,
                        const struct route_match *match, bool decoded, struct problem *problem)
{
    if (found == ROUTE_UNKNOWN) {
        problem_set(problem, PROBLEM_ROUTE_NOT_FOUND, "There is no %.100s here.", request->path);
        return false;
    }
    if (found == ROUTE_WRONG_METHOD) {
        (void)snprintf(request->allow, sizeof request->allow, "%s", match->allow);
        problem_set(problem, PROBLEM_METHOD_NOT_ALLOWED, "%.100s takes %s, not %s.", request->path,
                    match->allow, request->method);
        return false;
    }
    if (decoded)
        return true;
    if (!*request->parameter)
        problem_set(problem, PROBLEM_SANDBOX_NOT_FOUND,
                    "There is no sandbox of this name: it is too long or not well-formed.");
    else if (match->route->by_query || strchr(match->route->pattern, '*'))
        problem_set(problem, PROBLEM_FILE_NOT_FOUND,
                    "There is no file of this name: it is too long or not well-formed.");
    else
        problem_set(problem, PROBLEM_ROUTE_NOT_FOUND, "There is no %.100s here.", request->path);
    return false;
}

static bool check_phase(const struct request *request, struct problem *problem)
{
    enum service_phase phase = request->service->phase;
    if (request->route->open || phase == SERVICE_RUNNING)
        return true;
    if (phase == SERVICE_STARTING)
        problem_set(problem, PROBLEM_STARTING, "The service is starting. Try again in a moment.");
    else
        problem_set(problem, PROBLEM_SHUTTING_DOWN, "The service is stopping.");
    return false;
}

static bool check_length(const struct request *request, struct problem *problem)
{
    if (announced_length(request) <= body_limit(request))
        return true;
    problem_set(problem, PROBLEM_BODY_TOO_LARGE, "The body has %llu bytes; this route takes %zu.",
                (unsigned long long)announced_length(request), body_limit(request));
    return false;
}

bool admission_judge(struct request *request, const struct guard *guard)
{
    struct route_match match;
    struct problem problem;
    choose_request_id(request);
    request->json = is_json(request);
    enum route_result found =
        router_match(routes, routes_count, request->method, request->path, &match);
    request->route = found == ROUTE_FOUND ? match.route : NULL;
    bool decoded = request->route && request->route->by_query ? decode_query(request)
                                                              : decode_parameters(request, &match);
    request->last =
        request_header(request, MHD_HTTP_HEADER_TRANSFER_ENCODING) && !raw_form_trusts_chunks();
    if (!check_form(request, &problem)) {
        request->last = request->malformed = true;
        answer_problem(request, &problem);
        return false;
    }
    if (!check_client(request, guard, &problem) || !check_rate(request, &problem)) {
        answer_problem(request, &problem);
        return false;
    }
    if (request->shared && !strcmp(request->method, "OPTIONS")) {
        answer_preflight(request);
        return false;
    }
    if (!check_route(request, found, &match, decoded, &problem) ||
        !check_phase(request, &problem) || !check_length(request, &problem)) {
        answer_problem(request, &problem);
        return false;
    }
    return true;
}

bool admission_refuses_body(const struct request *request)
{
    const char *encoding = request_header(request, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    return request->malformed || request_header(request, MHD_HTTP_HEADER_EXPECT) ||
           announced_length(request) > MAX_DISCARDED_BYTES ||
           (encoding && !same_ignoring_case(encoding, "chunked"));
}
