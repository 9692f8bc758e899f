/* Running code, feeding it input, fetching what was detached, interrupting it, starting the kernel afresh. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "http/execute_fields.h"
#include "http/request.h"
#include "http/response.h"
#include "http/routes.h"
#include "http/server.h"
#include "http/stream.h"
#include "huskd/json_body.h"
#include "huskd/sandbox.h"

enum {
    PATIENCE_MS = SHIM_PATIENCE_SECONDS * 1000,
    RESTART_PATIENCE_MS = 3 * START_SECONDS * 1000 + PATIENCE_MS /* three attempts */
};

static void cancel_call(struct request *request)
{
    sandbox_forget_call(request->sandbox, request->tag);
    if (request->stream)
        stream_free(TAKE_POINTER(request->stream));
}

/* Send it to the shim and wait. */
static void call(struct request *request, enum shim_type type, struct shim_request message)
{
    struct problem problem;
    message.length = strlen(message.payload);
    message.user = request;
    if (sandbox_call(request->sandbox, type, &message, &request->tag) == 0) {
        request_wait(request, cancel_call);
        return;
    }
    if (request->stream)
        stream_free(TAKE_POINTER(request->stream));
    problem_set(&problem, PROBLEM_QUEUE_FULL,
                "Too much is waiting for this sandbox already. Try again in a moment.");
    answer_problem(request, &problem);
}

static void answer_out_of_memory(struct request *request)
{
    struct problem problem;
    problem_set(&problem, PROBLEM_OUT_OF_MEMORY, "huskd is out of memory. Try again later.");
    answer_problem(request, &problem);
}

/* An answer stays in memory until its client has read it, and many of 24 MiB may wait for clients that do not. False: there are
 * enough of them, and that is answered. */
static bool has_room_for_answer(struct request *request)
{
    struct problem problem;
    if (server_unread(request->server) < MAX_UNREAD_ANSWERS_BYTES)
        return true;
    problem_set(&problem, PROBLEM_OUT_OF_MEMORY,
                "Too many large answers wait for clients to read them. Try again in a moment.");
    answer_problem(request, &problem);
    return false;
}

/* --- execute ------------------------------------------------------------------------------------ */

static void executed(const struct shim_answer *answer, void *user)
{
    struct request *request = user;
    if (answer->problem)
        answer_problem(request, answer->problem);
    else
        answer_json_text(request, MHD_HTTP_OK, answer->body, answer->length);
}

/* It can be fetched again, so it need not be held. */
static void fetched(const struct shim_answer *answer, void *user)
{
    if (answer->problem || has_room_for_answer(user))
        executed(answer, user);
}

static void accepted(const struct shim_answer *answer, void *user)
{
    struct request *request = user;
    if (answer->problem)
        answer_problem(request, answer->problem);
    else
        answer_json(request, MHD_HTTP_ACCEPTED, TAKE_POINTER(request->collected));
}

static void streamed(const char *data, size_t length, void *user)
{
    struct request *request = user;
    stream_add(request->stream, data, length);
}

static void stream_ended(const struct shim_answer *answer, void *user)
{
    struct request *request = user;
    stream_end(request->stream, answer->problem);
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
                                 .callback = executed,
                                 .patience_ms = (uint64_t)(fields->timeout * 1000) + PATIENCE_MS};
    if (fields->detach) {
        order.callback = accepted;
        order.patience_ms = PATIENCE_MS;
        request->collected = json_pack("{s:s}", "execution_id", id);
    } else if (fields->stream) {
        order.callback = stream_ended;
        order.data = streamed;
        request->stream = stream_new(request, fields->stream);
    }
    call(request, SHIM_EXECUTE, order);
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
    call(
        request, SHIM_FETCH,
        (struct shim_request){.payload = message, .callback = fetched, .patience_ms = PATIENCE_MS});
}

/* --- input, interrupt and restart --------------------------------------------------------------- */

static void done(const struct shim_answer *answer, void *user)
{
    struct request *request = user;
    if (answer->problem)
        answer_problem(request, answer->problem);
    else
        answer_json(request, MHD_HTTP_OK, json_pack("{s:s}", "status", "success"));
}

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
    call(request, SHIM_INPUT,
         (struct shim_request){.payload = message, .callback = done, .patience_ms = PATIENCE_MS});
}

void route_interrupt(struct request *request)
{
    if (request_find_sandbox(request))
        call(request, SHIM_INTERRUPT,
             (struct shim_request){.payload = "", .callback = done, .patience_ms = PATIENCE_MS});
}

void route_restart(struct request *request)
{
    if (request_find_sandbox(request))
        call(request, SHIM_RESTART,
             (struct shim_request){
                 .payload = "", .callback = done, .patience_ms = RESTART_PATIENCE_MS});
}
