/* What a prompt asks the kernel while no code runs: completion, inspection, is this all? */
#include <stdlib.h>

#include "base/attributes.h"
#include "http/request.h"
#include "http/response.h"
#include "http/routes.h"
#include "http/shim_call.h"
#include "huskd/json_body.h"
#include "huskd/problem.h"
#include "huskd/question_fields.h"

static void ask(struct request *request, enum question_kind kind)
{
    struct problem problem;
    struct question_fields fields = {.kind = kind};
    json_auto_t *body = NULL;
    if (!request_find_sandbox(request))
        return;
    if (!request_query_flag(request, "colors", &fields.colours, &problem) ||
        !json_body_parse(request->body.data, request->body.length, &body, &problem) ||
        !question_fields_read(body, &fields, &problem))
        return answer_problem(request, &problem);
    _cleanup_free_ char *message = question_fields_message(&fields);
    if (!message)
        return answer_out_of_memory(request);
    if (has_room_for_answer(request))
        shim_call(request, SHIM_ASK,
                  (struct shim_request){.payload = message,
                                        .callback = shim_call_answer,
                                        .patience_ms = QUESTION_MILLISECONDS + PATIENCE_MS});
}

void route_complete(struct request *request)
{
    ask(request, QUESTION_COMPLETE);
}

void route_inspect(struct request *request)
{
    ask(request, QUESTION_INSPECT);
}

void route_is_complete(struct request *request)
{
    ask(request, QUESTION_IS_COMPLETE);
}
