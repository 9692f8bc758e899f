#include "unit.h"

#include "base/buffer.h"
#include "husk/limits.h"
#include "shim/order.h"
#include "shim/tool_answer.h"

#define ID "0b5a7e5e-0000-4000-8000-000000000001"

struct rig {
    struct tool_answer *answer;
    struct outputs *outputs;
};

static struct rig rig_new(struct tool_order order)
{
    order.sandbox = ID;
    struct rig rig = {.answer = tool_answer_new(&order)};
    rig.outputs = outputs_new(tool_answer_recorder(rig.answer), false);
    return rig;
}

/* `json` with ' for ". */
static json_t *parse(const char *json)
{
    char text[8192];
    (void)snprintf(text, sizeof text, "%s", json);
    for (char *c = text; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    json_t *value = json_loads(text, 0, NULL);
    assert_non_null(value);
    return value;
}

static void put(const struct rig *rig, const char *type, const char *content)
{
    json_auto_t *json = parse(content);
    outputs_add(rig->outputs, type, json);
}

/* The whole result; frees the rig. */
static json_t *finish(struct rig *rig, struct verdict verdict, const char *files)
{
    json_auto_t *list = parse(files);
    struct tool_frame frame = {.outputs = rig->outputs, .verdict = &verdict, .files = list};
    _cleanup_buffer_ struct buffer out = {0};
    assert_int_equal(buffer_append_text(&out, "{"), 0);
    assert_int_equal(tool_answer_render(rig->answer, &frame, &out), 0);
    assert_int_equal(buffer_append_text(&out, "}"), 0);
    assert_null(memchr(out.data, '\n', out.length));
    json_t *result = json_loadb(out.data, out.length, 0, NULL);
    assert_non_null(result);
    outputs_free(rig->outputs);
    tool_answer_free(rig->answer);
    return result;
}

static const json_t *item(const json_t *result, size_t index)
{
    return json_array_get(json_object_get(result, "content"), index);
}

static const char *text_of(const json_t *result, size_t index)
{
    return json_string_value(json_object_get(item(result, index), "text"));
}

static const char *type_of(const json_t *result, size_t index)
{
    return json_string_value(json_object_get(item(result, index), "type"));
}

static void silence(void **state)
{
    (void)state;
    struct rig rig = rig_new((struct tool_order){.note = "a note"});
    json_auto_t *result = finish(&rig, (struct verdict){.status = EXECUTION_OK}, "[]");
    assert_non_null(strstr(text_of(result, 0), "no output"));
    assert_string_equal(text_of(result, 1), "a note");
    assert_true(json_is_false(json_object_get(result, "isError")));
    const json_t *structured = json_object_get(result, "structuredContent");
    assert_string_equal(json_string_value(json_object_get(structured, "sandbox_id")), ID);
}

static void everything(void **state)
{
    (void)state;
    struct rig rig = rig_new((struct tool_order){.links = true});
    put(&rig, "stream", "{'name':'stdout','text':'out\\n'}");
    put(&rig, "stream", "{'name':'stderr','text':'err'}");
    put(&rig, "display_data",
        "{'data':{'text/plain':'<Figure>','image/png':'iVBO\\nRw0K'},'metadata':{}}");
    put(&rig, "display_data",
        "{'data':{'text/plain':'<IPython.core.display.Markdown object>','text/markdown':'# m'}}");
    put(&rig, "execute_result", "{'data':{'text/html':'<b>','text/plain':'   a'},'metadata':{}}");
    json_auto_t *result = finish(&rig, (struct verdict){.status = EXECUTION_OK},
                                 "[{'path':'a b.csv','size':5,'type':'text/csv; "
                                 "charset=utf-8','url':'/x','change':'created'}]");
    assert_string_equal(text_of(result, 0), "out\n");
    assert_string_equal(text_of(result, 1), "stderr:\nerr");
    assert_string_equal(type_of(result, 2), "image");
    assert_string_equal(json_string_value(json_object_get(item(result, 2), "data")), "iVBORw0K");
    assert_string_equal(text_of(result, 3), "# m");
    assert_string_equal(text_of(result, 4), "   a");
    assert_string_equal(type_of(result, 5), "resource_link");
    assert_string_equal(json_string_value(json_object_get(item(result, 5), "uri")),
                        "husk://" ID "/a%20b.csv");
    assert_string_equal(json_string_value(json_object_get(item(result, 5), "mimeType")),
                        "text/csv");
    const json_t *results =
        json_object_get(json_object_get(result, "structuredContent"), "results");
    assert_int_equal(json_array_size(results), 6);
    char *dumped = json_dumps(results, 0);
    assert_null(strstr(dumped, "iVBO"));
    free(dumped);
}

/* What is no base64 would make a client refuse the whole answer. */
static void images_that_are_none(void **state)
{
    (void)state;
    static const char *const bad[] = {"iVB", "iVB*", "====", "", "iV=O", "<b>x</b>"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        char content[256];
        struct rig rig = rig_new((struct tool_order){0});
        (void)snprintf(content, sizeof content, "{'data':{'image/png':'%s','text/plain':'plain'}}",
                       bad[i]);
        put(&rig, "display_data", content);
        json_auto_t *result = finish(&rig, (struct verdict){.status = EXECUTION_OK}, "[]");
        assert_string_equal(text_of(result, 0), "plain");
    }
}

static void errors(void **state)
{
    (void)state;
    struct rig rig = rig_new((struct tool_order){0});
    put(&rig, "error",
        "{'ename':'ModuleNotFoundError','evalue':'No module','traceback':['Traceback','line']}");
    json_auto_t *result = finish(&rig, (struct verdict){.status = EXECUTION_ERROR}, "[]");
    assert_true(json_is_true(json_object_get(result, "isError")));
    assert_non_null(strstr(text_of(result, 0), "Traceback\nline"));
    assert_non_null(strstr(text_of(result, 0), "not installed"));

    struct rig late = rig_new((struct tool_order){0});
    json_auto_t *timeout = finish(&late,
                                  (struct verdict){.status = EXECUTION_TIMEOUT,
                                                   .error = "TimeoutError",
                                                   .error_value = "too slow",
                                                   .state_lost = true},
                                  "[]");
    assert_non_null(strstr(text_of(timeout, 0), "TimeoutError: too slow"));
    assert_non_null(strstr(text_of(timeout, 0), "variables and imports are lost"));
    assert_true(json_is_true(json_object_get(timeout, "isError")));

    struct rig stopped = rig_new((struct tool_order){0});
    json_auto_t *interrupted = finish(&stopped,
                                      (struct verdict){.status = EXECUTION_INTERRUPTED,
                                                       .error = "Interrupted",
                                                       .error_value = "stopped"},
                                      "[]");
    assert_true(json_is_false(json_object_get(interrupted, "isError")));
}

static void bounds(void **state)
{
    (void)state;
    struct rig rig = rig_new((struct tool_order){.links = false});
    for (int i = 0; i < 3000; i++)
        put(&rig, "stream",
            "{'name':'stdout','text':'"
            "0123456789012345678901234567890123456789012345678901234567890123\\n'}");
    for (int i = 0; i < 2000; i++)
        put(&rig, "display_data", "{'data':{'text/plain':'0123456789'}}");
    json_auto_t *result =
        finish(&rig, (struct verdict){.status = EXECUTION_OK},
               "[{'path':'x','size':5,'type':'text/csv','url':'/x','change':'changed'}]");
    assert_true(strlen(text_of(result, 0)) <= MAX_TOOL_TEXT_BYTES);
    size_t count = json_array_size(json_object_get(result, "content"));
    assert_true(count <= MAX_RESULTS + 2);
    assert_string_equal(text_of(result, count - 1), "Files:\nchanged x");
    const json_t *structured = json_object_get(result, "structuredContent");
    assert_true(json_is_true(json_object_get(structured, "truncated")));
}

static void many_files(void **state)
{
    (void)state;
    struct rig rig = rig_new((struct tool_order){.links = true});
    _cleanup_buffer_ struct buffer files = {0};
    for (int i = 0; i < MAX_TOOL_LINKS + 5; i++)
        assert_int_equal(
            buffer_printf(&files,
                          "%s{'path':'%d','size':5,'type':'a','url':'/','change':'created'}",
                          i ? "," : "[", i),
            0);
    assert_int_equal(buffer_append_text(&files, "]"), 0);
    json_auto_t *result =
        finish(&rig, (struct verdict){.status = EXECUTION_OK}, buffer_text(&files));
    assert_int_equal(json_array_size(json_object_get(result, "content")), MAX_TOOL_LINKS + 1);
    assert_string_equal(text_of(result, MAX_TOOL_LINKS), "5 more files were created or changed.");
}

static void progress(void **state)
{
    (void)state;
    struct rig rig = rig_new((struct tool_order){0});
    _cleanup_buffer_ struct buffer out = {0};
    put(&rig, "stream", "{'name':'stdout','text':'first\\n50%\\r75%\\n'}");
    assert_int_equal(tool_answer_progress(rig.answer, 12034, true, &out), 0);
    assert_string_equal(buffer_text(&out),
                        "\"progress\":12.034,\"message\":\"running for 12 s: 75%\"");
    buffer_clear(&out);
    for (int i = 0; i < 100; i++)
        put(&rig, "stream", "{'name':'stdout','text':'€€€'}");
    assert_int_equal(tool_answer_progress(rig.answer, 1000, false, &out), 0);
    assert_true(out.length < MAX_TOOL_LINE_BYTES + 64);
    json_decref(finish(&rig, (struct verdict){.status = EXECUTION_OK}, "[]"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence),
        cmocka_unit_test(everything),
        cmocka_unit_test(images_that_are_none),
        cmocka_unit_test(errors),
        cmocka_unit_test(bounds),
        cmocka_unit_test(many_files),
        cmocka_unit_test(progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
