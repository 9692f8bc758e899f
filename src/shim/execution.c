#include "shim/execution.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"

enum {
    SENTENCE_SIZE = 512
};

struct execution *execution_new(struct ticket ticket, json_t *code, uint64_t timeout_ms)
{
    struct execution *execution = must_alloc(sizeof *execution);
    *execution =
        (struct execution){.ticket = ticket, .code = json_incref(code), .timeout_ms = timeout_ms};
    execution->outputs = outputs_new();
    return execution;
}

struct execution *execution_free(struct execution *execution)
{
    if (!execution)
        return NULL;
    timer_remove(execution->deadline);
    json_decref(execution->code);
    outputs_free(execution->outputs);
    free(execution);
    return NULL;
}

json_t *execution_request(const struct execution *execution)
{
    return json_pack("{s:O, s:b, s:b, s:{}, s:b, s:b}", "code", execution->code, "silent", false,
                     "store_history", true, "user_expressions", "allow_stdin", false,
                     "stop_on_error", false);
}

bool ending_replaces_kernel(enum ending ending)
{
    return ending == ENDING_SILENT || ending == ENDING_UNSTOPPABLE || ending == ENDING_UNREACHABLE;
}

static bool loses_state(enum ending ending)
{
    return ending_replaces_kernel(ending) || ending == ENDING_DIED ||
           ending == ENDING_OUT_OF_MEMORY || ending == ENDING_RESTARTED ||
           ending == ENDING_NO_KERNEL;
}

/* It was told to stop, and then ended in whatever way. */
static struct verdict judge_stopped(const struct execution *execution, enum ending ending,
                                    char sentence[SENTENCE_SIZE])
{
    bool timeout = execution->stop == STOP_TIMEOUT;
    double seconds = (double)execution->timeout_ms / 1000;
    const char *plural = execution->timeout_ms == 1000 ? "" : "s";
    const char *rest = loses_state(ending) ? "the kernel had to be replaced, variables are lost"
                                           : "interrupted, variables are kept";
    if (timeout && ending == ENDING_NOT_RUN)
        (void)snprintf(sentence, SENTENCE_SIZE,
                       "the code did not start within %g second%s, so it was not run", seconds,
                       plural);
    else if (timeout)
        (void)snprintf(sentence, SENTENCE_SIZE, "the code did not finish within %g second%s; %s",
                       seconds, plural, rest);
    else if (ending == ENDING_NOT_RUN)
        (void)snprintf(sentence, SENTENCE_SIZE, "the code was not run");
    else
        (void)snprintf(sentence, SENTENCE_SIZE, "the code was interrupted; %s",
                       loses_state(ending) ? rest : "variables are kept");
    return (struct verdict){.status = timeout ? EXECUTION_TIMEOUT : EXECUTION_INTERRUPTED,
                            .error = timeout ? "TimeoutError" : "Interrupted",
                            .error_value = sentence};
}

static struct verdict judge(const struct execution *execution, enum ending ending,
                            const char *detail, char sentence[SENTENCE_SIZE])
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
        (void)snprintf(sentence, SENTENCE_SIZE, "the kernel %s", detail);
        verdict.error_value = sentence;
        return verdict;
    case ENDING_UNREACHABLE:
        verdict.error_value = "the kernel took no requests any more and had to be replaced";
        return verdict;
    case ENDING_NO_KERNEL:
        (void)snprintf(sentence, SENTENCE_SIZE, "%.*s",
                       (int)utf8_cut(detail, strlen(detail), SENTENCE_SIZE - 1), detail);
        verdict.error_value = sentence;
        return verdict;
    default:
        break;
    }
    if (ending == ENDING_NO_REPLY && !outputs_has_error(execution->outputs))
        return (struct verdict){.status = EXECUTION_ERROR,
                                .error = "NoReply",
                                .error_value =
                                    "the kernel went idle without saying how the code ended"};
    return (struct verdict){.status = outputs_has_error(execution->outputs) ? EXECUTION_ERROR
                                                                            : EXECUTION_OK};
}

void execution_answer(struct execution *execution, enum ending ending, const char *detail,
                      struct shim_result_head *head, struct buffer *json)
{
    char sentence[SENTENCE_SIZE];
    struct verdict verdict = judge(execution, ending, detail, sentence);
    verdict.state_lost = loses_state(ending) || execution->state_was_lost;
    verdict.duration_ms = execution->number ? now_ms() - execution->started_at : 0;
    if (ending == ENDING_NO_IDLE || ending == ENDING_SILENT)
        outputs_mark_truncated(execution->outputs);

    if (outputs_render(execution->outputs, &verdict, json) < 0) {
        outputs_free(execution->outputs);
        execution->outputs = outputs_new();
        outputs_mark_truncated(execution->outputs);
        buffer_clear(json);
        (void)outputs_render(execution->outputs, &verdict, json);
    }
    *head = (struct shim_result_head){.status = verdict.status,
                                      .state_lost = verdict.state_lost,
                                      .duration_ms = verdict.duration_ms};
}
