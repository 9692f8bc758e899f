/* Running commands beside the kernel; those that are detached: listing, fetching, ending them. */
#include <stdlib.h>

#include "base/attributes.h"
#include "base/id.h"
#include "http/request.h"
#include "http/response.h"
#include "http/routes.h"
#include "http/shim_call.h"
#include "http/stream.h"
#include "huskd/command_fields.h"
#include "huskd/json_body.h"
#include "huskd/problem.h"
#include "huskd/service.h"

static void run(struct request *request, const struct command_fields *fields, enum stream_kind kind)
{
    char id[ID_TEXT_SIZE];
    id_format(id_new(), id);
    _cleanup_free_ char *message = command_fields_message(fields, id);
    if (!message)
        return answer_out_of_memory(request);
    uint64_t timeout_ms = fields->detach ? 0 : (uint64_t)(fields->timeout * 1000);
    shim_call_run(request, SHIM_COMMAND,
                  (struct shim_request){.payload = message,
                                        .callback = fields->detach ? shim_call_answer_accepted
                                                                   : shim_call_answer,
                                        .patience_ms = timeout_ms + PATIENCE_MS},
                  kind);
}

static bool read_fields(const struct request *request, enum stream_kind kind,
                        struct command_fields *ret, struct problem *problem)
{
    json_auto_t *body = NULL;
    *ret = (struct command_fields){0};
    if (!json_body_parse(request->body.data, request->body.length, &body, problem) ||
        !command_fields_read(body, request->service->config, ret, problem))
        return false;
    ret->stream = stream_kind_name(kind);
    if (!ret->detach || !kind)
        return true;
    problem_set(problem, PROBLEM_INVALID_FIELD,
                "detach cannot be streamed. Leave it out, or ask for application/json.");
    return false;
}

void route_command(struct request *request)
{
    struct problem problem;
    struct command_fields fields;
    if (!request_find_sandbox(request))
        return;
    enum stream_kind kind = stream_wanted(request_header(request, MHD_HTTP_HEADER_ACCEPT));
    if (!read_fields(request, kind, &fields, &problem))
        answer_problem(request, &problem);
    else if (kind || has_room_for_answer(request))
        run(request, &fields, kind);
    command_fields_free(&fields);
}

void route_commands(struct request *request)
{
    if (request_find_sandbox(request))
        shim_call(request, SHIM_COMMAND_LIST,
                  (struct shim_request){
                      .payload = "", .callback = shim_call_answer, .patience_ms = PATIENCE_MS});
}

/* About the command that the path names. */
static void ask_about(struct request *request, enum shim_type type, shim_callback callback)
{
    if (!request_find_sandbox(request))
        return;
    json_auto_t *json = json_pack("{s:s}", "command", request->second_parameter);
    _cleanup_free_ char *message = json ? json_dumps(json, JSON_COMPACT) : NULL;
    if (!message)
        return answer_out_of_memory(request);
    shim_call(request, type,
              (struct shim_request){
                  .payload = message, .callback = callback, .patience_ms = PATIENCE_MS});
}

void route_command_result(struct request *request)
{
    ask_about(request, SHIM_COMMAND_FETCH, shim_call_answer_fetched);
}

void route_command_kill(struct request *request)
{
    ask_about(request, SHIM_COMMAND_KILL, shim_call_answer_done);
}
