/* Installing packages, and what is installed. */
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "http/request.h"
#include "http/response.h"
#include "http/routes.h"
#include "http/shim_call.h"
#include "http/stream.h"
#include "huskd/config.h"
#include "huskd/json_body.h"
#include "huskd/keeper_client.h"
#include "huskd/package_fields.h"
#include "huskd/package_json.h"
#include "huskd/packages.h"
#include "huskd/problem.h"
#include "huskd/requirement.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"

/* --- install ------------------------------------------------------------------------------------ */

/* Takes `event`. */
static void send_event(struct request *request, const char *name, json_t *event)
{
    _cleanup_free_ char *text = event ? json_dumps(event, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    json_decref(event);
    if (text)
        stream_add_event(request->stream, name, text);
}

static void progressed(const char *line, void *user)
{
    struct request *request = user;
    if (request->stream)
        send_event(request, "progress", json_pack("{s:s, s:s}", "event", "progress", "text", line));
}

static void silent(void *user)
{
    struct request *request = user;
    if (request->stream && request->phase >= REQUEST_ANSWERED)
        stream_keep_alive(request->stream);
}

static void finished(const struct install_result *result, void *user)
{
    struct request *request = user;
    request->install = NULL;
    if (request->stream && !result->problem) {
        json_t *json = package_result_json(result);
        (void)json_object_set_new(json, "event", json_string("end"));
        (void)json_object_del(json, "output"); /* was sent, line by line */
        send_event(request, "end", json);
    }
    if (request->stream)
        stream_end(request->stream, result->problem);
    else if (result->problem)
        answer_problem(request, result->problem);
    else
        answer_json(request, MHD_HTTP_OK, package_result_json(result));
}

static void stop_install(void *user)
{
    struct request *request = user;
    if (request->install)
        install_cancel(TAKE_POINTER(request->install));
}

static const struct stream_source source = {.stop = stop_install};

static void cancel_install(struct request *request)
{
    if (request->tag)
        keeper_client_forget(request->service->keeper, request->tag);
    stop_install(request);
    if (request->stream)
        stream_free(TAKE_POINTER(request->stream));
}

static void begin(struct request *request, json_t *requirements,
                  const struct package_fields *fields)
{
    struct problem problem;
    struct install_order order = {
        .requirements = requirements, .upgrade = fields->upgrade, .pre = fields->pre};
    enum stream_kind kind =
        fields->wait ? stream_wanted(request_header(request, MHD_HTTP_HEADER_ACCEPT)) : STREAM_NONE;
    struct install_events events = {
        .progress = progressed, .done = finished, .silent = silent, .user = request};
    if (!fields->wait)
        events = (struct install_events){0};
    struct install *install = install_begin(request->sandbox, &order, &events, &problem);
    if (!install) {
        answer_problem(request, &problem);
        return;
    }
    if (!fields->wait) {
        answer_json(request, MHD_HTTP_ACCEPTED,
                    json_pack("{s:s, s:O}", "status", "installing", "requirements", requirements));
        return;
    }
    request->install = install;
    if (kind != STREAM_NONE)
        request->stream = stream_new_from(request, kind, &source, request);
    if (request->phase == REQUEST_HANDLING)
        request_wait(request, cancel_install);
}

static void answer_no_file(struct request *request, const char *path)
{
    struct problem problem;
    problem_set(&problem, PROBLEM_FILE_NOT_FOUND,
                "There is no file '%.160s' in the working directory of the sandbox.", path);
    answer_problem(request, &problem);
}

/* The keeper has opened it. What is in it is the sandbox's. */
static void file_opened(int fd, void *user)
{
    struct request *request = user;
    _cleanup_close_ int own = fd;
    char text[MAX_REQUIREMENTS_BYTES + 1];
    struct problem problem;
    struct package_fields fields;
    request->tag = 0;
    bool good = package_fields_read(request->collected, &fields, &problem);
    husk_assert(good); /* as before the keeper was asked */
    ssize_t length = own < 0 ? -1 : read_at(own, text, sizeof text, 0);
    if (length < 0) {
        answer_no_file(request, fields.file);
    } else if (length > MAX_REQUIREMENTS_BYTES) {
        problem_set(&problem, PROBLEM_INVALID_FIELD, "'%.160s' has more than %d bytes.",
                    fields.file, MAX_REQUIREMENTS_BYTES);
        answer_problem(request, &problem);
    } else if (!requirements_parse(text, (size_t)length, fields.requirements, &problem)) {
        answer_problem(request, &problem);
    } else if (json_array_size(fields.requirements) == 0) {
        problem_set(&problem, PROBLEM_INVALID_FIELD, "'%.160s' names no package.", fields.file);
        answer_problem(request, &problem);
    } else {
        begin(request, fields.requirements, &fields);
    }
    package_fields_free(&fields);
}

void route_install(struct request *request)
{
    struct problem problem;
    struct package_fields fields;
    json_auto_t *body = NULL;
    if (!request_find_sandbox(request))
        return;
    if (!json_body_parse(request->body.data, request->body.length, &body, &problem))
        return answer_problem(request, &problem);
    if (!package_fields_read(body, &fields, &problem)) {
        answer_problem(request, &problem);
    } else if (fields.file) {
        request->collected = json_incref(body);
        request->tag = keeper_client_open(request->service->keeper, request->sandbox->id,
                                          fields.file, file_opened, request);
        request_wait(request, cancel_install);
    } else {
        begin(request, fields.requirements, &fields);
    }
    package_fields_free(&fields);
}

/* --- what is installed --------------------------------------------------------------------------- */

/* The list, or the problem is answered. */
static json_t *read_list(const struct shim_answer *answer, struct request *request)
{
    struct problem problem;
    if (answer->problem) {
        answer_problem(request, answer->problem);
        return NULL;
    }
    json_t *list = packages_read(answer->body, answer->length);
    if (!list) {
        problem_set(&problem, PROBLEM_KERNEL_UNAVAILABLE,
                    "The sandbox cannot say what is installed in it. Try again in a moment.");
        answer_problem(request, &problem);
    }
    return list;
}

static void answer_list(const struct shim_answer *answer, void *user)
{
    json_auto_t *list = read_list(answer, user);
    if (list)
        answer_json(user, MHD_HTTP_OK, package_list_sorted(list));
}

static void answer_one(const struct shim_answer *answer, void *user)
{
    struct request *request = user;
    char name[MAX_PACKAGE_NAME + 1];
    json_auto_t *list = read_list(answer, request);
    if (!list)
        return;
    (void)package_name_normal(request->second_parameter, strlen(request->second_parameter), name);
    answer_json(request, MHD_HTTP_OK, package_state_json(request->sandbox, name, list));
}

static void ask_for_list(struct request *request, shim_callback callback)
{
    shim_call(request, SHIM_PACKAGES,
              (struct shim_request){
                  .payload = "",
                  .callback = callback,
                  .patience_ms = 2 * LIST_SECONDS * 1000 +
                                 request->service->config->package_seconds * 1000 + PATIENCE_MS});
}

void route_packages(struct request *request)
{
    if (request_find_sandbox(request))
        ask_for_list(request, answer_list);
}

void route_package(struct request *request)
{
    struct problem problem;
    char name[MAX_PACKAGE_NAME + 1];
    if (!request_find_sandbox(request))
        return;
    if (package_name_normal(request->second_parameter, strlen(request->second_parameter), name)) {
        json_t *state = package_state_json(request->sandbox, name, NULL);
        if (state)
            answer_json(request, MHD_HTTP_OK, state);
        else
            ask_for_list(request, answer_one);
        return;
    }
    problem_set(&problem, PROBLEM_INVALID_FIELD, "'%.80s' is not the name of a package.",
                request->second_parameter);
    answer_problem(request, &problem);
}
