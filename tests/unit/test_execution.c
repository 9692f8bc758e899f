#include "shim/execution.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/attributes.h"
#include "base/clock.h"

static struct execution *make_from(struct order order)
{
    json_t *code = json_string("1+1");
    order.ticket = (struct ticket){.connection = 1, .tag = 2};
    order.code = code;
    order.timeout_ms = 1500;
    struct execution *execution = execution_new(&order, NULL);
    json_decref(code);
    return execution;
}

static struct execution *make(void)
{
    return make_from((struct order){0});
}

static json_t *json_of(const struct buffer *payload, struct shim_result_head *head)
{
    assert_true(payload->length > sizeof *head);
    memcpy(head, payload->data, sizeof *head);
    return json_loadb(payload->data + sizeof *head, payload->length - sizeof *head, 0, NULL);
}

/* The answer of an execution that ended like this, which is freed. */
static json_t *answer_of(struct execution *execution, enum ending ending, const char *detail,
                         struct shim_result_head *head)
{
    char text[VERDICT_TEXT_SIZE];
    struct buffer payload = BUFFER_LIMITED(MAX_ANSWER_BYTES);
    struct verdict verdict = execution_judge(execution, ending, detail, text);
    execution_render(execution, &verdict, &payload);
    json_t *answer = json_of(&payload, head);
    assert_non_null(answer);
    buffer_free(&payload);
    execution_free(execution);
    return answer;
}

static void expect_text(const json_t *answer, const char *member, const char *text)
{
    const char *value = json_string_value(json_object_get(answer, member));
    if (!text)
        assert_true(json_is_null(json_object_get(answer, member)));
    else if (!value || !strstr(value, text))
        fail_msg("%s is '%s', not '%s'", member, value ? value : "", text);
}

static void endings(void **state)
{
    (void)state;
    static const struct {
        enum ending ending;
        enum stop_reason stop;
        const char *status, *error, *error_value;
        bool state_lost, truncated, replied;
    } cases[] = {
        {ENDING_COMPLETE, STOP_NONE, "ok", NULL, NULL, false, false},
        {ENDING_COMPLETE, STOP_TIMEOUT, "timeout", "TimeoutError",
         "did not finish within 1.5 seconds; interrupted, variables are kept", false, false},
        {ENDING_COMPLETE, STOP_INTERRUPT, "interrupted", "Interrupted", "variables are kept", false,
         false},
        {ENDING_NO_REPLY, STOP_NONE, "error", "NoReply", "idle", false, false},
        {ENDING_NO_REPLY, STOP_TIMEOUT, "timeout", "TimeoutError", "variables are kept", false,
         false},
        {ENDING_NO_IDLE, STOP_NONE, "ok", NULL, NULL, false, true, true},
        {ENDING_SILENT, STOP_NONE, "ok", NULL, NULL, true, true, true},
        {ENDING_SILENT, STOP_NONE, "error", "NoReply", "it had to be replaced", true, true},
        {ENDING_UNSTOPPABLE, STOP_TIMEOUT, "timeout", "TimeoutError",
         "the kernel had to be replaced, variables are lost", true, false},
        {ENDING_UNSTOPPABLE, STOP_INTERRUPT, "interrupted", "Interrupted",
         "the kernel had to be replaced, variables are lost", true, false},
        {ENDING_UNREACHABLE, STOP_NONE, "died", "KernelDied", "replaced", true, false},
        {ENDING_DIED, STOP_NONE, "died", "KernelDied", "the kernel was killed by SIGSEGV", true,
         false},
        {ENDING_DIED, STOP_TIMEOUT, "timeout", "TimeoutError", "variables are lost", true, false},
        {ENDING_OUT_OF_MEMORY, STOP_NONE, "died", "OutOfMemory", "memory", true, false},
        {ENDING_OUT_OF_MEMORY, STOP_TIMEOUT, "died", "OutOfMemory", "memory", true, false},
        {ENDING_RESTARTED, STOP_NONE, "interrupted", "Interrupted", "restarted", true, false},
        {ENDING_NOT_RUN, STOP_TIMEOUT, "timeout", "TimeoutError",
         "did not start within 1.5 seconds", false, false},
        {ENDING_NOT_RUN, STOP_INTERRUPT, "interrupted", "Interrupted", "not run", false, false},
        {ENDING_NO_KERNEL, STOP_NONE, "died", "KernelDied", "was killed by SIGSEGV", true, false},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct execution *execution = make();
        execution->stop = cases[i].stop;
        execution->replied = cases[i].replied;
        struct shim_result_head head;
        json_t *answer = answer_of(execution, cases[i].ending, "was killed by SIGSEGV", &head);
        expect_text(answer, "status", cases[i].status);
        expect_text(answer, "error", cases[i].error);
        expect_text(answer, "error_value", cases[i].error_value);
        assert_int_equal(json_is_true(json_object_get(answer, "state_lost")), cases[i].state_lost);
        assert_int_equal(json_is_true(json_object_get(answer, "truncated")), cases[i].truncated);
        assert_int_equal(head.state_lost, cases[i].state_lost);
        assert_int_equal(head.duration_ms, 0);
        json_decref(answer);
    }
}

static void python_error(void **state)
{
    (void)state;
    struct execution *execution = make();
    json_t *error = json_pack("{s:s, s:s, s:[s]}", "ename", "KeyboardInterrupt", "evalue", "",
                              "traceback", "Traceback");
    outputs_add(execution->outputs, "error", error);
    execution->number = 1;
    execution->started_at = now_ms();
    struct shim_result_head head;
    json_t *answer = answer_of(execution, ENDING_COMPLETE, NULL, &head);
    assert_int_equal(head.status, EXECUTION_ERROR);
    expect_text(answer, "error", "KeyboardInterrupt");
    json_decref(answer);

    execution = make();
    execution->stop = STOP_TIMEOUT;
    outputs_add(execution->outputs, "error", error);
    answer = answer_of(execution, ENDING_COMPLETE, NULL, &head);
    assert_int_equal(head.status, EXECUTION_TIMEOUT);
    expect_text(answer, "error", "TimeoutError");
    expect_text(answer, "traceback", "Traceback");
    json_decref(answer);
    json_decref(error);
}

static void state_lost_before(void **state)
{
    (void)state;
    struct execution *execution = make();
    execution->state_was_lost = true;
    struct shim_result_head head;
    json_t *answer = answer_of(execution, ENDING_COMPLETE, NULL, &head);
    assert_int_equal(head.status, EXECUTION_OK);
    assert_int_equal(head.state_lost, true);
    json_decref(answer);
}

/* A reason may be long and in any language. */
static void long_detail(void **state)
{
    (void)state;
    char detail[2000];
    for (size_t shift = 0; shift < 3; shift++) {
        memset(detail, 'x', shift);
        size_t length = shift;
        while (length + 4 < sizeof detail) {
            memcpy(detail + length, "\xe6\xad\xa3", 3);
            length += 3;
        }
        detail[length] = '\0';
        struct shim_result_head head;
        json_t *answer = answer_of(make(), ENDING_NO_KERNEL, detail, &head);
        expect_text(answer, "error_value", "\xe6\xad\xa3");
        json_decref(answer);
    }
}

/* An answer that does not fit is still an answer. */
static void no_room(void **state)
{
    (void)state;
    struct execution *execution = make();
    json_t *content = json_pack("{s:s, s:s}", "name", "stdout", "text",
                                "more than there is room for, and therefore left out");
    for (int i = 0; i < 100; i++)
        outputs_add(execution->outputs, "stream", content);
    json_decref(content);
    struct buffer json = BUFFER_LIMITED(1000);
    struct shim_result_head head;
    char text[VERDICT_TEXT_SIZE];
    struct verdict verdict = execution_judge(execution, ENDING_DIED, "ended", text);
    execution_render(execution, &verdict, &json);
    json_t *answer = json_of(&json, &head);
    expect_text(answer, "error", "KernelDied");
    expect_text(answer, "stdout", "");
    assert_true(json_is_true(json_object_get(answer, "truncated")));
    json_decref(answer);
    buffer_free(&json);
    execution_free(execution);
}

static void request(void **state)
{
    (void)state;
    struct execution *execution = make();
    json_t *content = execution_request(execution);
    json_t *expected =
        json_pack("{s:s, s:b, s:b, s:{}, s:b, s:b}", "code", "1+1", "silent", 0, "store_history", 1,
                  "user_expressions", "allow_stdin", 0, "stop_on_error", 0);
    assert_true(json_equal(content, expected));
    json_decref(content);
    json_decref(expected);
    execution_free(execution);
}

/* What the protocol has no place for goes into the metadata, and never into the code. */
static void metadata(void **state)
{
    (void)state;
    json_t *env = json_pack("{s:s}", "KEY", "va\"lue");
    struct execution *execution = make_from(
        (struct order){.env = env, .colours = true, .auto_install = true, .input = INPUT_ASK});
    json_t *given = execution_metadata(execution);
    json_t *expected = json_pack("{s:{s:b, s:b, s:s, s:{s:s}}}", "husk", "colors", 1,
                                 "auto_install", 1, "stdin", "ask", "env", "KEY", "va\"lue");
    assert_true(json_equal(given, expected));
    json_t *content = execution_request(execution);
    assert_true(json_is_true(json_object_get(content, "allow_stdin")));
    json_decref(content);
    json_decref(given);
    json_decref(expected);
    json_decref(env);
    execution_free(execution);
}

static void progress(void **state)
{
    (void)state;
    struct execution *execution =
        make_from((struct order){.execution_id = "0b5a7e5e-0000-4000-8000-000000000001"});
    json_t *content = json_pack("{s:s, s:s}", "name", "stdout", "text", "so far");
    for (int i = 0; i < 2; i++) {
        struct buffer payload = {0};
        struct shim_result_head head;
        struct verdict verdict = execution_progress(execution);
        execution_render(execution, &verdict, &payload);
        json_t *answer = json_of(&payload, &head);
        expect_text(answer, "execution_id", "0b5a7e5e-0000-4000-8000-000000000001");
        expect_text(answer, "status", i == 0 ? "queued" : "running");
        expect_text(answer, "stdout", i == 0 ? "" : "so far");
        assert_null(json_object_get(answer, "files"));
        json_decref(answer);
        buffer_free(&payload);
        execution->number = 7;
        execution->started_at = now_ms();
        outputs_add(execution->outputs, "stream", content);
    }
    json_decref(content);
    execution_free(execution);
}

/* What a prompt that asks is told, after a usable reply or none. */
static void questions(void **state)
{
    (void)state;
    static const struct {
        enum ending ending;
        enum stop_reason stop;
        const char *reply; /* NULL: none */
        const char *code, *detail;
    } cases[] = {
        {ENDING_COMPLETE, STOP_NONE, "complete", NULL, NULL},
        {ENDING_NO_IDLE, STOP_NONE, "invalid", NULL, NULL},
        {ENDING_COMPLETE, STOP_NONE, "rubbish", "kernel_unavailable", "variables are kept"},
        {ENDING_NO_REPLY, STOP_NONE, NULL, "kernel_unavailable", "variables are kept"},
        {ENDING_COMPLETE, STOP_TIMEOUT, "complete", "kernel_timeout",
         "did not answer within 5 seconds; variables are kept"},
        {ENDING_NOT_RUN, STOP_TIMEOUT, NULL, "kernel_timeout", "variables are kept"},
        {ENDING_UNSTOPPABLE, STOP_TIMEOUT, NULL, "kernel_timeout", "variables are lost"},
        {ENDING_SILENT, STOP_NONE, "complete", "kernel_unavailable", "variables are lost"},
        {ENDING_DIED, STOP_NONE, NULL, "kernel_unavailable", "was killed by SIGKILL; a fresh one"},
        {ENDING_OUT_OF_MEMORY, STOP_NONE, NULL, "kernel_unavailable", "more memory"},
        {ENDING_RESTARTED, STOP_NONE, NULL, "kernel_unavailable", "was interrupted"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct question question = {.kind = QUESTION_IS_COMPLETE};
        struct execution *execution = make_from((struct order){.question = &question});
        json_auto_t *content = json_pack("{s:s*}", "status", cases[i].reply);
        struct message reply = {.type = "is_complete_reply", .content = content};
        struct message other = {.type = "execute_reply", .content = content};
        assert_string_equal(execution_request_type(execution), "is_complete_request");
        assert_false(execution_take_reply(execution, &other));
        if (cases[i].reply)
            assert_true(execution_take_reply(execution, &reply));
        execution->stop = cases[i].stop;
        char text[VERDICT_TEXT_SIZE] = "";
        struct buffer payload = {0};
        const char *code = execution_answer_question(execution, cases[i].ending,
                                                     "was killed by SIGKILL", &payload, text);
        assert_int_equal(code != NULL, cases[i].code != NULL);
        assert_int_equal(payload.length > 0, code == NULL);
        if (code) {
            assert_string_equal(code, cases[i].code);
            assert_non_null(strstr(text, cases[i].detail));
        } else {
            struct shim_result_head head;
            json_auto_t *answer = json_of(&payload, &head);
            expect_text(answer, "status", cases[i].reply);
        }
        buffer_free(&payload);
        execution_free(execution);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endings),           cmocka_unit_test(python_error),
        cmocka_unit_test(state_lost_before), cmocka_unit_test(long_detail),
        cmocka_unit_test(no_room),           cmocka_unit_test(request),
        cmocka_unit_test(metadata),          cmocka_unit_test(progress),
        cmocka_unit_test(questions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
