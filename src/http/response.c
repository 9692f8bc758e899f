#include "http/response.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

#include "base/attributes.h"
#include "base/id.h"
#include "http/request.h"
#include "huskd/problem.h"

/* Nobody wants to read 2.1473529999999998 seconds. */
#define DUMP_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(9))

static const struct {
    unsigned status;
    const char *code;
    const char *title;
    const char *retry_after; /* seconds; NULL: trying again does not help */
} kinds[PROBLEM_KINDS] = {
    [PROBLEM_MALFORMED_REQUEST] = {400, "malformed_request", "Malformed request", NULL},
    [PROBLEM_MALFORMED_JSON] = {400, "malformed_json", "Malformed JSON", NULL},
    [PROBLEM_UNAUTHORIZED] = {401, "unauthorized", "API key needed", NULL},
    [PROBLEM_HOST_NOT_ALLOWED] = {403, "host_not_allowed", "Host not allowed", NULL},
    [PROBLEM_ORIGIN_NOT_ALLOWED] = {403, "origin_not_allowed", "Origin not allowed", NULL},
    [PROBLEM_LINK_INVALID] = {403, "link_invalid", "Link not valid", NULL},
    [PROBLEM_LINK_EXPIRED] = {403, "link_expired", "Link expired", NULL},
    [PROBLEM_ROUTE_NOT_FOUND] = {404, "route_not_found", "No such route", NULL},
    [PROBLEM_METHOD_NOT_ALLOWED] = {405, "method_not_allowed", "Method not allowed", NULL},
    [PROBLEM_BODY_TOO_LARGE] = {413, "body_too_large", "Body too large", NULL},
    [PROBLEM_HEADERS_TOO_LARGE] = {431, "headers_too_large", "Headers too large", NULL},
    [PROBLEM_INVALID_FIELD] = {422, "invalid_field", "Invalid field", NULL},
    [PROBLEM_INVALID_UTF8] = {422, "invalid_utf8", "Not UTF-8", NULL},
    [PROBLEM_NOT_SUPPORTED_YET] = {422, "not_supported_yet", "Not supported yet", NULL},
    [PROBLEM_SANDBOX_NOT_FOUND] = {404, "sandbox_not_found", "No such sandbox", NULL},
    [PROBLEM_SANDBOX_CLOSED] = {410, "sandbox_closed", "Sandbox closed", NULL},
    [PROBLEM_NAME_TAKEN] = {409, "name_taken", "Name taken", NULL},
    [PROBLEM_NAME_AMBIGUOUS] = {409, "name_ambiguous", "Name ambiguous", NULL},
    [PROBLEM_RATE_LIMITED] = {429, "rate_limited", "Too many requests", "1"},
    [PROBLEM_TOO_MANY_SANDBOXES] = {429, "too_many_sandboxes", "Too many sandboxes", "5"},
    [PROBLEM_TOO_MANY_EXECUTIONS] = {429, "too_many_executions", "Too many executions", "1"},
    [PROBLEM_QUEUE_FULL] = {429, "queue_full", "Too many executions waiting", "1"},
    [PROBLEM_NO_INPUT_EXPECTED] = {409, "no_input_expected", "No input expected", NULL},
    [PROBLEM_EXECUTION_NOT_FOUND] = {404, "execution_not_found", "No such execution", NULL},
    [PROBLEM_TOO_MANY_COMMANDS] = {429, "too_many_commands", "Too many commands running", "1"},
    [PROBLEM_COMMAND_NOT_FOUND] = {404, "command_not_found", "No such command", NULL},
    [PROBLEM_SANDBOX_BUSY] = {409, "sandbox_busy", "Sandbox busy", "1"},
    [PROBLEM_KERNEL_TIMEOUT] = {504, "kernel_timeout", "Kernel did not answer in time", NULL},
    [PROBLEM_KERNEL_UNAVAILABLE] = {503, "kernel_unavailable", "Kernel not available", "1"},
    [PROBLEM_FILE_NOT_FOUND] = {404, "file_not_found", "No such file", NULL},
    [PROBLEM_FILE_UNAVAILABLE] = {503, "file_unavailable", "File not available", "1"},
    [PROBLEM_FILE_CONFLICT] = {409, "file_conflict", "Something is in the way", NULL},
    [PROBLEM_DISK_FULL] = {507, "disk_full", "Disk full", NULL},
    [PROBLEM_BAD_ARCHIVE] = {422, "bad_archive", "Archive not accepted", NULL},
    [PROBLEM_UNSUPPORTED_MEDIA] = {415, "unsupported_media_type", "Media type not supported", NULL},
    [PROBLEM_RANGE_NOT_SATISFIABLE] = {416, "range_not_satisfiable", "No such range", NULL},
    [PROBLEM_TOO_MANY_FILE_JOBS] = {429, "too_many_file_jobs", "Too many jobs on files", "1"},
    [PROBLEM_PACKAGES_DISABLED] = {403, "packages_disabled", "Packages cannot be installed", NULL},
    [PROBLEM_PACKAGE_NOT_ALLOWED] = {403, "package_not_allowed", "Package not allowed", NULL},
    [PROBLEM_INSTALL_FAILED] = {422, "install_failed", "Packages not installed", NULL},
    [PROBLEM_AT_CAPACITY] = {503, "at_capacity", "At capacity", "5"},
    [PROBLEM_STARTING] = {503, "starting", "Starting", "1"},
    [PROBLEM_SHUTTING_DOWN] = {503, "shutting_down", "Shutting down", "5"},
    [PROBLEM_CREATE_FAILED] = {500, "create_failed", "Sandbox could not be made", NULL},
    [PROBLEM_CREATE_UNAVAILABLE] = {503, "create_failed", "Sandbox could not be made", "5"},
    [PROBLEM_REMOVE_FAILED] = {500, "remove_failed", "Sandbox not wholly removed", NULL},
    [PROBLEM_OUT_OF_MEMORY] = {503, "out_of_memory", "Out of memory", "5"},
};

/* When there is no memory for more. */
static const char last_resort[] =
    "{\"type\": \"urn:husk:problem:out_of_memory\", \"title\": \"Out of memory\", \"status\": 503, "
    "\"detail\": \"huskd is out of memory. Try again later.\", \"code\": \"out_of_memory\"}";

static struct MHD_Response *persistent(const char *text)
{
    return MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text,
                                           MHD_RESPMEM_PERSISTENT);
}

/* Owned by libmicrohttpd from here on; takes `text`. */
static struct MHD_Response *response_from(char *text)
{
    if (!text)
        return NULL;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    if (!response)
        free(text);
    return response;
}

static void answer_as(struct request *request, unsigned status, struct MHD_Response *response,
                      const char *type)
{
    if (!response) {
        response = persistent(last_resort);
        status = MHD_HTTP_SERVICE_UNAVAILABLE;
        type = "application/problem+json";
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    request_answer(request, status, response);
}

void answer_json(struct request *request, unsigned status, json_t *json)
{
    char *text = json ? json_dumps(json, DUMP_FLAGS) : NULL;
    json_decref(json);
    answer_as(request, status, response_from(text), "application/json");
}

void answer_json_text(struct request *request, unsigned status, const char *text, size_t length)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(length, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    request->answer_bytes = response ? length : 0;
    answer_as(request, status, response, "application/json");
}

static char *problem_text(const struct problem *problem, unsigned status)
{
    char type[64];
    (void)snprintf(type, sizeof type, "urn:husk:problem:%s", kinds[problem->kind].code);
    json_t *json =
        json_pack("{s:s, s:s, s:i, s:s, s:s, s:s*}", "type", type, "title",
                  kinds[problem->kind].title, "status", (int)status, "detail", problem->detail,
                  "code", kinds[problem->kind].code, "why", problem->why);
    char *text = json ? json_dumps(json, DUMP_FLAGS) : NULL;
    json_decref(json);
    return text;
}

static void add_retry_after(struct MHD_Response *response, const struct problem *problem)
{
    char seconds[16];
    const char *text = kinds[problem->kind].retry_after;
    if (problem->retry_after) {
        (void)snprintf(seconds, sizeof seconds, "%u", problem->retry_after);
        text = seconds;
    }
    if (text)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, text);
}

void answer_problem(struct request *request, const struct problem *problem)
{
    unsigned status = kinds[problem->kind].status;
    struct MHD_Response *response = response_from(problem_text(problem, status));
    if (response)
        add_retry_after(response, problem);
    if (response && problem->kind == PROBLEM_METHOD_NOT_ALLOWED)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, request->allow);
    if (response && problem->kind == PROBLEM_UNAUTHORIZED)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (response && problem->kind == PROBLEM_RANGE_NOT_SATISFIABLE) {
        char range[40];
        (void)snprintf(range, sizeof range, "bytes */%" PRIu64, request->file_size);
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_RANGE, range);
    }
    answer_as(request, status, response, "application/problem+json");
}

void answer_preflight(struct request *request)
{
    struct MHD_Response *response = persistent("");
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS,
                                  "GET, HEAD, POST, PUT, DELETE");
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS,
                                  "Authorization, Content-Type, Range, If-Range, If-None-Match, "
                                  "X-API-Key, X-Request-Id, Mcp-Session-Id, "
                                  "MCP-Protocol-Version, Mcp-Method, Mcp-Name");
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, "600");
    request_answer(request, MHD_HTTP_NO_CONTENT, response);
}

struct MHD_Response *response_for_status(unsigned status)
{
    struct problem problem;
    char id[ID_TEXT_SIZE];
    if (status == MHD_HTTP_URI_TOO_LONG || status == MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE)
        problem_set(&problem, PROBLEM_HEADERS_TOO_LARGE,
                    "The request line and headers are too large.");
    else if (status == MHD_HTTP_CONTENT_TOO_LARGE)
        problem_set(&problem, PROBLEM_BODY_TOO_LARGE, "The body is too large.");
    else
        problem_set(&problem, PROBLEM_MALFORMED_REQUEST, "This is not a well-formed HTTP request.");
    struct MHD_Response *response = response_from(problem_text(&problem, status));
    if (!response)
        return NULL;
    id_format(id_new(), id);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                  "application/problem+json");
    (void)MHD_add_response_header(response, "X-Request-Id", id);
    return response;
}
