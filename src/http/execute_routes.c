/* Running code, interrupting it, starting the kernel afresh. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/text.h"
#include "http/json_body.h"
#include "http/request.h"
#include "http/response.h"
#include "http/routes.h"
#include "http/uri.h"
#include "huskd/config.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"

#define LEAST_TIMEOUT 0.001

enum {
    PATIENCE_MS = SHIM_PATIENCE_SECONDS * 1000,
    RESTART_PATIENCE_MS = 3 * START_SECONDS * 1000 + PATIENCE_MS /* three attempts */
};

static void cancel_call(struct request *request)
{
    sandbox_forget_call(request->sandbox, request->tag);
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
    problem_set(&problem, PROBLEM_QUEUE_FULL,
                "Too much is waiting for this sandbox already. Try again in a moment.");
    answer_problem(request, &problem);
}

/* --- execute ------------------------------------------------------------------------------------ */

struct code {
    const char *text; /* borrowed from the body */
    size_t length;
    double timeout;
};

static bool timeout_from_query(const struct request *request, struct number_range range,
                               double *timeout, struct problem *problem)
{
    char text[32];
    int r = uri_query(request->query, "timeout", text, sizeof text);
    if (r == 0)
        return true;
    if (r > 0)
        r = parse_double(text, range.minimum, range.maximum, timeout);
    if (r < 0)
        problem_set(problem, PROBLEM_INVALID_FIELD, "timeout must be a number from %g to %g.",
                    range.minimum, range.maximum);
    return r >= 0;
}

static bool code_from_json(const json_t *body, struct number_range range, struct code *code,
                           struct problem *problem)
{
    static const char *const later[] = {"stdin", "env", "detach"};
    if (!json_body_text(body, "code", &code->text, &code->length, problem) ||
        !json_body_real(body, "timeout", range, &code->timeout, problem))
        return false;
    if (!code->text) {
        problem_set(problem, PROBLEM_INVALID_FIELD, "code is missing: the Python code to run.");
        return false;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(later); i++) {
        if (json_body_has(body, later[i])) {
            problem_set(problem, PROBLEM_NOT_SUPPORTED_YET,
                        "%s cannot be used with execute yet; leave it out.", later[i]);
            return false;
        }
    }
    return true;
}

static bool code_from_body(const struct request *request, struct code *code,
                           struct problem *problem)
{
    code->text = request->body.length ? request->body.data : "";
    code->length = request->body.length;
    if (utf8_valid(code->text, code->length))
        return true;
    problem_set(problem, PROBLEM_INVALID_UTF8,
                "The code is not valid UTF-8. Convert it, or send it as JSON.");
    return false;
}

static bool read_code(const struct request *request, const json_t *body, struct code *code,
                      struct problem *problem)
{
    const struct config *config = request->service->config;
    struct number_range range = {LEAST_TIMEOUT, (double)config->timeout_seconds.maximum};
    code->timeout = (double)config->timeout_seconds.standard;
    if (!timeout_from_query(request, range, &code->timeout, problem))
        return false;
    if (request->json ? !code_from_json(body, range, code, problem)
                      : !code_from_body(request, code, problem))
        return false;
    if (code->length > MAX_CODE_BYTES) {
        problem_set(problem, PROBLEM_BODY_TOO_LARGE,
                    "The code has %zu bytes; at most %d are taken.", code->length, MAX_CODE_BYTES);
        return false;
    }
    return true;
}

static char *execute_message(const struct code *code)
{
    json_auto_t *message = json_pack("{s:s%, s:I}", "code", code->text, code->length, "timeout_ms",
                                     (json_int_t)(code->timeout * 1000));
    return message ? json_dumps(message, JSON_COMPACT) : NULL;
}

static void executed(const struct shim_answer *answer, void *user)
{
    struct request *request = user;
    if (answer->problem)
        answer_problem(request, answer->problem);
    else
        answer_json_text(request, MHD_HTTP_OK, answer->body, answer->length);
}

void route_execute(struct request *request)
{
    struct problem problem;
    struct code code = {0};
    json_auto_t *body = NULL;
    if (!request_find_sandbox(request))
        return;
    if ((request->json &&
         !json_body_parse(request->body.data, request->body.length, &body, &problem)) ||
        !read_code(request, body, &code, &problem)) {
        answer_problem(request, &problem);
        return;
    }
    _cleanup_free_ char *message = execute_message(&code);
    if (!message) {
        problem_set(&problem, PROBLEM_OUT_OF_MEMORY, "huskd is out of memory. Try again later.");
        answer_problem(request, &problem);
        return;
    }
    call(request, SHIM_EXECUTE,
         (struct shim_request){.payload = message,
                               .callback = executed,
                               .patience_ms = (uint64_t)(code.timeout * 1000) + PATIENCE_MS});
}

/* --- interrupt and restart ---------------------------------------------------------------------- */

static void done(const struct shim_answer *answer, void *user)
{
    struct request *request = user;
    if (answer->problem)
        answer_problem(request, answer->problem);
    else
        answer_json(request, MHD_HTTP_OK, json_pack("{s:s}", "status", "success"));
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
