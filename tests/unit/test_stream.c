/* Which kind of stream a client asks for. */
#include "unit.h"

#include "http/stream.h"

static void accept_header(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        enum stream_kind kind;
    } cases[] = {
        {NULL, STREAM_NONE},
        {"", STREAM_NONE},
        {" ", STREAM_NONE},
        {",", STREAM_NONE},
        {",;, ;", STREAM_NONE},
        {"*/*", STREAM_NONE},
        {"text/*", STREAM_NONE},
        {"application/json", STREAM_NONE},
        {"text/event-stream", STREAM_EVENTS},
        {"Text/Event-STREAM", STREAM_EVENTS},
        {"application/x-ndjson", STREAM_LINES},
        {"application/X-NDJSON", STREAM_LINES},
        {"text/event-stream;q=0.9", STREAM_EVENTS},
        {"text/event-stream ; charset=utf-8", STREAM_EVENTS},
        {" \ttext/event-stream\t ", STREAM_EVENTS},
        {"application/json, text/event-stream", STREAM_EVENTS},
        {"application/json,text/event-stream", STREAM_EVENTS},
        {"application/json;q=0.5 ,\tapplication/x-ndjson;q=0.1, */*", STREAM_LINES},
        {",,application/x-ndjson", STREAM_LINES},
        /* The first that is known. */
        {"text/event-stream, application/x-ndjson", STREAM_EVENTS},
        {"application/x-ndjson, text/event-stream", STREAM_LINES},
        /* Almost. */
        {"text/event-strea", STREAM_NONE},
        {"text/event-streams", STREAM_NONE},
        {"xtext/event-stream", STREAM_NONE},
        {"application/x-ndjson2", STREAM_NONE},
        {"text/html;text/event-stream", STREAM_NONE},
        {"text/html text/event-stream", STREAM_NONE},
        {"application/json;profile=text/event-stream", STREAM_NONE},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        if (stream_wanted(cases[i].accept) != cases[i].kind)
            fail_msg("'%s' is taken for kind %d", cases[i].accept ? cases[i].accept : "(none)",
                     stream_wanted(cases[i].accept));
    }
}

/* As the shim knows them (husk/shim_protocol.h). */
static void names(void **state)
{
    (void)state;
    assert_null(stream_kind_name(STREAM_NONE));
    assert_string_equal(stream_kind_name(STREAM_EVENTS), "sse");
    assert_string_equal(stream_kind_name(STREAM_LINES), "ndjson");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(accept_header), cmocka_unit_test(names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
