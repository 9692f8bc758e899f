/* Running code, feeding it input, fetching what was detached, interrupting it, starting the kernel afresh. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "http/execute_fields.h"
#include "http/request.h"
#include "http/response.h"
#include "http/routes.h"
#include "http/shim_call.h"
#include "huskd/json_body.h"
#include "huskd/sandbox.h"

enum {
    RESTART_PATIENCE_MS = 3 * START_SECONDS * 1000 + PATIENCE_MS /* three attempts */
};

/* --- execute ------------------------------------------------------------------------------------ */

static void accepted(const struct shim_answer *answer, void *user)
{
    struct request *request = user;
    if (answer->problem)
        answer_problem(request, answer->problem);
    else
        answer_json(request, MHD_HTTP_ACCEPTED, TAKE_POINTER(request->collected));
}

static void execute(struct request *request, const struct execute_fields *fields)
{
    char id[ID_TEXT_SIZE];
    if (fields->detach)
        id_format(id_new(), id);
    _cleanup_free_ char *message = execute_fields_message(fields, fields->detach ? id : NULL);
    if (!message)
        return answer_out_of_memory(request);
    struct shim_request order = {.payload = message,
                                 .callback = shim_call_answer,
                                 .patience_ms = (uint64_t)(fields->timeout * 1000) + PATIENCE_MS};
    if (fields->detach) {
        order.callback = accepted;
        order.patience_ms = PATIENCE_MS;
        request->collected = json_pack("{s:s}", "execution_id", id);
    }
    shim_call_run(request, SHIM_EXECUTE, order, fields->stream);
}

void route_execute(struct request *request)
{
    struct problem problem;
    struct execute_fields fields;
    if (!request_find_sandbox(request))
        return;
    if (!execute_fields_read(request, &fields, &problem))
        answer_problem(request, &problem);
    else if (fields.stream || has_room_for_answer(request))
        execute(request, &fields);
    execute_fields_free(&fields);
}

void route_execution(struct request *request)
{
    if (!request_find_sandbox(request))
        return;
    _cleanup_free_ char *message = NULL;
    json_auto_t *json = json_pack("{s:s}", "execution_id", request->second_parameter);
    message = json ? json_dumps(json, JSON_COMPACT) : NULL;
    if (!message)
        return answer_out_of_memory(request);
    shim_call(request, SHIM_FETCH,
              (struct shim_request){.payload = message,
                                    .callback = shim_call_answer_fetched,
                                    .patience_ms = PATIENCE_MS});
}

/* --- input, interrupt and restart --------------------------------------------------------------- */

void route_input(struct request *request)
{
    struct problem problem;
    json_auto_t *body = NULL;
    json_t *value = NULL;
    if (!request_find_sandbox(request))
        return;
    if (!json_body_parse(request->body.data, request->body.length, &body, &problem) ||
        !input_field_read(body, &value, &problem))
        return answer_problem(request, &problem);
    json_auto_t *json = json_pack("{s:O?}", "value", value);
    _cleanup_free_ char *message = json ? json_dumps(json, JSON_COMPACT) : NULL;
    if (!message)
        return answer_out_of_memory(request);
    shim_call(request, SHIM_INPUT,
              (struct shim_request){.payload = message,
                                    .callback = shim_call_answer_done,
                                    .patience_ms = PATIENCE_MS});
}

void route_interrupt(struct request *request)
{
    if (request_find_sandbox(request))
        shim_call(request, SHIM_INTERRUPT,
                  (struct shim_request){.payload = "",
                                        .callback = shim_call_answer_done,
                                        .patience_ms = PATIENCE_MS});
}

void route_restart(struct request *request)
{
    if (request_find_sandbox(request))
        shim_call(request, SHIM_RESTART,
                  (struct shim_request){.payload = "",
                                        .callback = shim_call_answer_done,
                                        .patience_ms = RESTART_PATIENCE_MS});
}
