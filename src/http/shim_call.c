#include "http/shim_call.h"

#include <errno.h>
#include <string.h>

#include "base/attributes.h"
#include "http/request.h"
#include "http/response.h"
#include "http/server.h"
#include "husk/limits.h"
#include "huskd/problem.h"
#include "huskd/quota.h"
#include "huskd/sandbox.h"

static void cancel_call(struct request *request)
{
    sandbox_forget_call(request->sandbox, request->tag);
    if (request->stream)
        stream_free(TAKE_POINTER(request->stream));
}

void shim_call(struct request *request, enum shim_type type, struct shim_request message)
{
    struct problem problem;
    message.length = strlen(message.payload);
    message.user = request;
    int r = sandbox_call(request->sandbox, type, &message, &request->tag);
    if (r == 0) {
        request_wait(request, cancel_call);
        return;
    }
    if (request->stream)
        stream_free(TAKE_POINTER(request->stream));
    if (r == -EDQUOT)
        quota_tell_executions(request->sandbox, &problem);
    else
        problem_set(&problem, PROBLEM_QUEUE_FULL,
                    "Too much is waiting for this sandbox already. Try again in a moment.");
    answer_problem(request, &problem);
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

void shim_call_run(struct request *request, enum shim_type type, struct shim_request message,
                   enum stream_kind kind)
{
    if (kind) {
        message.callback = stream_ended;
        message.data = streamed;
        request->stream = stream_new(request, kind);
    }
    shim_call(request, type, message);
}

/* --- answers ------------------------------------------------------------------------------------ */

static void answer_with(const struct shim_answer *answer, struct request *request, unsigned status)
{
    if (answer->problem)
        answer_problem(request, answer->problem);
    else
        answer_json_text(request, status, answer->body, answer->length);
}

void shim_call_answer(const struct shim_answer *answer, void *request)
{
    answer_with(answer, request, MHD_HTTP_OK);
}

void shim_call_answer_accepted(const struct shim_answer *answer, void *request)
{
    answer_with(answer, request, MHD_HTTP_ACCEPTED);
}

void shim_call_answer_fetched(const struct shim_answer *answer, void *request)
{
    if (answer->problem || has_room_for_answer(request))
        shim_call_answer(answer, request);
}

void shim_call_answer_done(const struct shim_answer *answer, void *request)
{
    if (answer->problem)
        answer_problem(request, answer->problem);
    else
        answer_json(request, MHD_HTTP_OK, json_pack("{s:s}", "status", "success"));
}

void answer_out_of_memory(struct request *request)
{
    struct problem problem;
    problem_set(&problem, PROBLEM_OUT_OF_MEMORY, "huskd is out of memory. Try again later.");
    answer_problem(request, &problem);
}

bool has_room_for_answer(struct request *request)
{
    struct problem problem;
    if (server_unread(request->server) < MAX_UNREAD_ANSWERS_BYTES)
        return true;
    problem_set(&problem, PROBLEM_OUT_OF_MEMORY,
                "Too many large answers wait for clients to read them. Try again in a moment.");
    answer_problem(request, &problem);
    return false;
}
