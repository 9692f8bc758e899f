#include "shim/execution.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"

static struct recorder *recorder_of(const struct execution *execution)
{
    if (execution->tool)
        return tool_answer_recorder(execution->tool);
    return execution->stream ? event_stream_recorder(execution->stream)
                             : answer_recorder(execution->answer);
}

struct execution *execution_new(const struct order *order, struct event_stream *stream)
{
    struct execution *execution = must_alloc(sizeof *execution);
    *execution = (struct execution){.ticket = order->ticket,
                                    .code = json_incref(order->code),
                                    .env = json_incref(order->env),
                                    .colours = order->colours,
                                    .auto_install = order->auto_install,
                                    .timeout_ms = order->timeout_ms,
                                    .accepted_at = now_ms(),
                                    .stream = stream};
    if (order->question) {
        execution->question = must_alloc(sizeof *execution->question);
        *execution->question = *order->question;
        execution->reply = BUFFER_LIMITED(MAX_QUESTION_ANSWER_BYTES);
    }
    if (order->execution_id)
        (void)format_text(execution->id, sizeof execution->id, "%s", order->execution_id);
    input_init(&execution->input, order->input, order->lines);
    if (order->tool.sandbox)
        execution->tool = tool_answer_new(&order->tool);
    else if (!stream)
        execution->answer = answer_new();
    execution->outputs = outputs_new(recorder_of(execution), order->colours);
    return execution;
}

struct execution *execution_free(struct execution *execution)
{
    if (!execution)
        return NULL;
    timer_remove(execution->deadline);
    timer_remove(execution->progress);
    json_decref(execution->code);
    json_decref(execution->env);
    json_decref(execution->files);
    input_free(&execution->input);
    outputs_free(execution->outputs);
    answer_free(execution->answer);
    tool_answer_free(execution->tool);
    buffer_free(&execution->reply);
    free(execution->question);
    free(execution);
    return NULL;
}

const char *execution_request_type(const struct execution *execution)
{
    return execution->question ? question_request_type(execution->question) : "execute_request";
}

json_t *execution_request(const struct execution *execution)
{
    if (execution->question)
        return question_request(execution->question, execution->code);
    return json_pack("{s:O, s:b, s:b, s:{}, s:b, s:b}", "code", execution->code, "silent", false,
                     "store_history", true, "user_expressions", "allow_stdin",
                     execution->input.mode != INPUT_NONE, "stop_on_error", false);
}

json_t *execution_metadata(const struct execution *execution)
{
    json_t *husk =
        json_pack("{s:b, s:s, s:b}", "colors", execution->colours, "stdin",
                  input_mode_name(&execution->input), "auto_install", execution->auto_install);
    if (execution->env)
        (void)json_object_set(husk, "env", execution->env);
    return json_pack("{s:o}", "husk", husk);
}

bool execution_take_reply(struct execution *execution, const struct message *message)
{
    const struct question *question = execution->question;
    if (strcmp(message->type, question ? question_reply_type(question) : "execute_reply") != 0)
        return false;
    if (execution->replied)
        return true;
    execution->replied = true;
    if (question)
        (void)question_answer(question, message->content, &execution->reply);
    else
        outputs_reply(execution->outputs, message->content);
    return true;
}

bool ending_replaces_kernel(enum ending ending)
{
    return ending == ENDING_SILENT || ending == ENDING_UNSTOPPABLE || ending == ENDING_UNREACHABLE;
}

bool ending_loses_state(enum ending ending)
{
    return ending_replaces_kernel(ending) || ending == ENDING_DIED ||
           ending == ENDING_OUT_OF_MEMORY || ending == ENDING_RESTARTED ||
           ending == ENDING_NO_KERNEL;
}

/* It was told to stop, and then ended in whatever way. */
static struct verdict judge_stopped(const struct execution *execution, enum ending ending,
                                    char sentence[VERDICT_TEXT_SIZE])
{
    bool timeout = execution->stop == STOP_TIMEOUT;
    double seconds = (double)execution->timeout_ms / 1000;
    const char *plural = execution->timeout_ms == 1000 ? "" : "s";
    const char *rest = ending_loses_state(ending)
                           ? "the kernel had to be replaced, variables are lost"
                           : "interrupted, variables are kept";
    if (timeout && ending == ENDING_NOT_RUN)
        (void)snprintf(sentence, VERDICT_TEXT_SIZE,
                       "the code did not start within %g second%s, so it was not run", seconds,
                       plural);
    else if (timeout)
        (void)snprintf(sentence, VERDICT_TEXT_SIZE,
                       "the code did not finish within %g second%s; %s", seconds, plural, rest);
    else if (ending == ENDING_NOT_RUN)
        (void)snprintf(sentence, VERDICT_TEXT_SIZE, "the code was not run");
    else
        (void)snprintf(sentence, VERDICT_TEXT_SIZE, "the code was interrupted; %s",
                       ending_loses_state(ending) ? rest : "variables are kept");
    return (struct verdict){.status = timeout ? EXECUTION_TIMEOUT : EXECUTION_INTERRUPTED,
                            .error = timeout ? "TimeoutError" : "Interrupted",
                            .error_value = sentence};
}

static struct verdict judge(const struct execution *execution, enum ending ending,
                            const char *detail, char sentence[VERDICT_TEXT_SIZE])
{
    if (ending == ENDING_OUT_OF_MEMORY)
        return (struct verdict){
            .status = EXECUTION_DIED,
            .error = "OutOfMemory",
            .error_value = "the sandbox used more memory than it may, and its kernel was killed"};
    if (ending == ENDING_RESTARTED)
        return (struct verdict){.status = EXECUTION_INTERRUPTED,
                                .error = "Interrupted",
                                .error_value = "the kernel was restarted, variables are lost"};
    if (execution->stop != STOP_NONE)
        return judge_stopped(execution, ending, sentence);

    struct verdict verdict = {.status = EXECUTION_DIED, .error = "KernelDied"};
    switch (ending) {
    case ENDING_DIED:
        (void)snprintf(sentence, VERDICT_TEXT_SIZE, "the kernel %s", detail);
        verdict.error_value = sentence;
        return verdict;
    case ENDING_UNREACHABLE:
        verdict.error_value = "the kernel took no requests any more and had to be replaced";
        return verdict;
    case ENDING_NO_KERNEL:
        (void)snprintf(sentence, VERDICT_TEXT_SIZE, "%.*s",
                       (int)utf8_cut(detail, strlen(detail), VERDICT_TEXT_SIZE - 1), detail);
        verdict.error_value = sentence;
        return verdict;
    default:
        break;
    }
    if (!execution->replied && ending != ENDING_COMPLETE && !outputs_has_error(execution->outputs))
        return (struct verdict){
            .status = EXECUTION_ERROR,
            .error = "NoReply",
            .error_value = ending == ENDING_NO_REPLY
                               ? "the kernel went idle without saying how the code ended"
                               : "the kernel said that it was idle, but not how the code ended, "
                                 "and then nothing more; it had to be replaced"};
    return (struct verdict){.status = outputs_has_error(execution->outputs) ? EXECUTION_ERROR
                                                                            : EXECUTION_OK};
}

static uint64_t running_for(const struct execution *execution)
{
    return execution->number ? now_ms() - execution->started_at : 0;
}

struct verdict execution_judge(struct execution *execution, enum ending ending, const char *detail,
                               char text[VERDICT_TEXT_SIZE])
{
    outputs_close(execution->outputs);
    struct verdict verdict = judge(execution, ending, detail, text);
    verdict.state_lost = ending_loses_state(ending) || execution->state_was_lost;
    verdict.duration_ms = running_for(execution);
    if (ending == ENDING_NO_IDLE || ending == ENDING_SILENT)
        outputs_mark_truncated(execution->outputs);
    return verdict;
}

struct verdict execution_progress(const struct execution *execution)
{
    return (struct verdict){.status = execution->number ? EXECUTION_RUNNING : EXECUTION_QUEUED,
                            .state_lost = execution->state_was_lost,
                            .duration_ms = running_for(execution)};
}

void execution_collect_files(struct execution *execution, struct home_changes *changes)
{
    /* One that never ran changed nothing; and nobody is told what a question changed. */
    execution->files =
        execution->number && !execution->question
            ? home_changes_since(changes, &execution->began, &execution->files_truncated)
            : json_array();
}

/* --- the answer ----------------------------------------------------------------------------- */

static struct shim_result_head head_of(const struct verdict *verdict)
{
    return (struct shim_result_head){.status = verdict->status,
                                     .state_lost = verdict->state_lost,
                                     .duration_ms = verdict->duration_ms};
}

static void render_tool(struct execution *execution, const struct verdict *verdict,
                        struct buffer *payload)
{
    struct tool_frame frame = {.outputs = execution->outputs,
                               .verdict = verdict,
                               .files = execution->files,
                               .files_truncated = execution->files_truncated};
    size_t before = payload->length;
    if (tool_answer_render(execution->tool, &frame, payload) == 0)
        return;
    tool_answer_empty(execution->tool);
    payload->length = before;
    (void)tool_answer_render(execution->tool, &frame, payload);
}

void execution_render(struct execution *execution, const struct verdict *verdict,
                      struct buffer *payload)
{
    struct shim_result_head head = head_of(verdict);
    struct answer_frame frame = {.outputs = execution->outputs,
                                 .verdict = verdict,
                                 .files = execution->files,
                                 .files_truncated = execution->files_truncated,
                                 .execution_id = *execution->id ? execution->id : NULL};
    (void)buffer_append(payload, &head, sizeof head);
    if (execution->tool)
        return render_tool(execution, verdict, payload);
    if (answer_render(execution->answer, &frame, payload) == 0)
        return;
    struct answer *empty = answer_new();
    outputs_mark_truncated(execution->outputs);
    payload->length = sizeof head;
    (void)answer_render(empty, &frame, payload);
    answer_free(empty);
}

void execution_end_stream(struct execution *execution, const struct verdict *verdict)
{
    struct event_stream *stream = TAKE_POINTER(execution->stream);
    struct shim_result_head head = head_of(verdict);
    size_t i;
    json_t *file;
    json_array_foreach(execution->files, i, file)
        event_stream_put(stream, "file", json_incref(file));
    json_t *end = json_object();
    (void)outputs_describe_error(execution->outputs, verdict, end);
    if (execution->files_truncated)
        (void)json_object_set_new(end, "files_truncated", json_true());
    (void)outputs_describe_end(execution->outputs, verdict, end);
    event_stream_finish(stream, end, &head);
}

void execution_tell_progress(const struct execution *execution, struct buffer *out)
{
    (void)tool_answer_progress(execution->tool, now_ms() - execution->accepted_at,
                               execution->number != 0, out);
}

/* --- questions ------------------------------------------------------------------------------ */

/* What became of the kernel instead of an answer: "was interrupted". */
static void describe_failure(const struct execution *execution, enum ending ending,
                             const char *detail, char text[VERDICT_TEXT_SIZE / 2])
{
    const char *what = "could not answer this";
    if (execution->stop == STOP_TIMEOUT) {
        (void)snprintf(text, VERDICT_TEXT_SIZE / 2, "did not answer within %d seconds",
                       QUESTION_MILLISECONDS / 1000);
        return;
    }
    if (ending == ENDING_RESTARTED || execution->stop != STOP_NONE)
        what = "was interrupted before it had an answer";
    else if (ending == ENDING_OUT_OF_MEMORY)
        what = "was killed, as the sandbox used more memory than it may";
    else if (ending == ENDING_DIED)
        what = detail;
    (void)format_text(text, VERDICT_TEXT_SIZE / 2, "%s", what);
}

static const char *refuse(const struct execution *execution, enum ending ending, const char *detail,
                          char text[VERDICT_TEXT_SIZE])
{
    char failure[VERDICT_TEXT_SIZE / 2];
    describe_failure(execution, ending, detail, failure);
    (void)snprintf(text, VERDICT_TEXT_SIZE, "The kernel %s; %s.", failure,
                   ending_loses_state(ending) ? "a fresh one takes its place, variables are lost"
                                              : "variables are kept");
    return execution->stop == STOP_TIMEOUT ? "kernel_timeout" : "kernel_unavailable";
}

const char *execution_answer_question(const struct execution *execution, enum ending ending,
                                      const char *detail, struct buffer *payload,
                                      char text[VERDICT_TEXT_SIZE])
{
    struct shim_result_head head = {.status = EXECUTION_OK, .duration_ms = running_for(execution)};
    /* An interrupted kernel may reply with what it has found by then. */
    if (execution->reply.length == 0 || execution->stop != STOP_NONE || ending_loses_state(ending))
        return refuse(execution, ending, detail, text);
    (void)buffer_append(payload, &head, sizeof head);
    (void)buffer_append(payload, execution->reply.data, execution->reply.length);
    return NULL;
}
