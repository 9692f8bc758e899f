/* Events of one execution: how they are written, and the life of a stream. How it follows its reader: test_event_flow.c. */
#include "stream_reader.h"

#include "skip_time.h"

static int set_up(void **state)
{
    *state = shim_side_start();
    return 0;
}

static int tear_down(void **state)
{
    shim_side_stop(*state);
    return 0;
}

static void put_text(struct event_stream *stream, enum text_stream which, const char *text,
                     size_t length)
{
    struct recorder *recorder = event_stream_recorder(stream);
    recorder->type->text(recorder, which, text, length);
}

static void show(struct event_stream *stream, struct display display, const char *content)
{
    struct recorder *recorder = event_stream_recorder(stream);
    json_t *json = json_loads(content, 0, NULL);
    assert_non_null(json);
    display.content = json;
    recorder->type->display(recorder, &display);
    json_decref(json);
}

static void raise_exception(struct event_stream *stream, const char *traceback, size_t length)
{
    struct recorder *recorder = event_stream_recorder(stream);
    json_t *name = json_string("Ausnahm\xc3\xa9");
    json_t *value = json_stringn("it \"broke\"\n\xe2\x80\xa8\0.", 16);
    assert_non_null(value);
    struct exception exception = {
        .name = name, .value = value, .traceback = traceback, .traceback_length = length};
    recorder->type->exception(recorder, &exception);
    json_decref(name);
    json_decref(value);
}

static void clear(struct event_stream *stream)
{
    struct recorder *recorder = event_stream_recorder(stream);
    recorder->type->clear(recorder);
}

static bool is_cut(struct event_stream *stream)
{
    struct recorder *recorder = event_stream_recorder(stream);
    return recorder->type->is_cut(recorder);
}

/* What the client of the stream has after all that has been put was read. */
static void expect_events(struct shim_side *side, uint64_t tag, enum stream_format format,
                          const char *expected)
{
    json_t *events = events_heard(&side->heard[tag], format);
    json_t *wanted = json_loads(expected, JSON_ALLOW_NUL, NULL);
    assert_non_null(wanted);
    char *text = json_dumps(events, JSON_ENSURE_ASCII);
    if (!json_equal(events, wanted))
        fail_msg("the events are %s,\nnot %s", text, expected);
    free(text);
    json_decref(events);
    json_decref(wanted);
}

static const enum stream_format formats[] = {STREAM_SSE, STREAM_NDJSON};

/* All that could end a line for some reader, or a string for C, is escaped. */
static void text_is_ascii(void **state)
{
    static const char strange[] = "a\0b\n\r\t\x01\x1b[0m\x7f \xc2\x85 \xe2\x80\xa8 \xe2\x80\xa9 "
                                  "\xf0\x9f\x98\x80 \"\\/ data: x\n\nevent: end";
    struct shim_side *side = *state;
    for (uint64_t tag = 1; tag <= 2; tag++) {
        struct event_stream *stream = open_stream(side, tag, formats[tag - 1]);
        put_text(stream, STREAM_STDOUT, strange, sizeof strange - 1);
        put_text(stream, STREAM_STDERR, "", 0);
        finish_stream(stream, tag);
        read_to_end(side, tag);
        expect_events(
            side, tag, formats[tag - 1],
            "[{\"event\":\"stdout\",\"text\":\"a\\u0000b\\n\\r\\t\\u0001\\u001b[0m\\u007f "
            "\\u0085 \\u2028 \\u2029 \\ud83d\\ude00 \\\"\\\\/ data: x\\n\\nevent: end\"},"
            "{\"event\":\"stderr\",\"text\":\"\"},"
            "{\"event\":\"end\",\"status\":\"error\"}]");
    }
}

static void displays(void **state)
{
    struct shim_side *side = *state;
    for (uint64_t tag = 1; tag <= 2; tag++) {
        struct event_stream *stream = open_stream(side, tag, formats[tag - 1]);
        show(stream, (struct display){.number = 0, .main = true},
             "{\"data\":{\"text/plain\":\"\\u2028\\ud83d\\ude00\"},\"metadata\":{}}");
        show(stream, (struct display){.number = 1, .id = "pl\xc3\xb6t"},
             "{\"data\":{\"text/html\":[\"a\",\"b\"],\"application/json\":{\"k\":[1]}},"
             "\"metadata\":{\"text/html\":{\"isolated\":true}}}");
        show(stream, (struct display){.number = 1, .id = "plot", .replaces = true},
             "{\"data\":{\"text/plain\":\"new\"}}");
        show(stream, (struct display){.number = 2, .id = "old", .foreign = true},
             "{\"data\":{\"text/plain\":\"f\"}}");
        show(stream, (struct display){.number = 3}, "{\"data\":{}}");
        assert_false(is_cut(stream));
        finish_stream(stream, tag);
        read_to_end(side, tag);
        expect_events(
            side, tag, formats[tag - 1],
            "[{\"event\":\"result\",\"output\":0,\"results\":[{\"type\":\"text/plain\",\"data\":"
            "\"\\u2028\\ud83d\\ude00\",\"output\":0,\"main\":true}]},"
            "{\"event\":\"result\",\"output\":1,\"results\":[{\"type\":\"text/html\",\"data\":"
            "\"ab\",\"output\":1,\"display_id\":\"pl\\u00f6t\",\"metadata\":{\"isolated\":true}},"
            "{\"type\":\"application/json\",\"data\":{\"k\":[1]},\"output\":1,\"display_id\":"
            "\"pl\\u00f6t\"}]},"
            "{\"event\":\"update\",\"output\":1,\"results\":[{\"type\":\"text/plain\",\"data\":"
            "\"new\",\"output\":1,\"display_id\":\"plot\"}]},"
            "{\"event\":\"result\",\"output\":2,\"results\":[{\"type\":\"text/plain\",\"data\":"
            "\"f\",\"output\":2,\"display_id\":\"old\",\"update\":true}]},"
            "{\"event\":\"result\",\"output\":3,\"results\":[]},"
            "{\"event\":\"end\",\"status\":\"error\"}]");
    }
}

static void exceptions_and_clearing(void **state)
{
    struct shim_side *side = *state;
    for (uint64_t tag = 1; tag <= 2; tag++) {
        struct event_stream *stream = open_stream(side, tag, formats[tag - 1]);
        raise_exception(stream, "line\n\x1b[31m\xe2\x80\xa9", 13);
        raise_exception(stream, "", 0);
        raise_exception(stream, NULL, 0);
        clear(stream);
        finish_stream(stream, tag);
        read_to_end(side, tag);
#define RAISED(traceback)                                                                          \
    "{\"event\":\"error\",\"error\":\"Ausnahm\\u00e9\",\"error_value\":\"it "                      \
    "\\\"broke\\\"\\n\\u2028\\u0000.\",\"traceback\":" traceback "},"
        expect_events(
            side, tag, formats[tag - 1],
            "[" RAISED("\"line\\n\\u001b[31m\\u2029\"") RAISED("\"\"")
                RAISED("null") "{\"event\":\"clear\"},{\"event\":\"end\",\"status\":\"error\"}]");
    }
}

/* The exact bytes, as clients without a library depend on them. */
static void exact_bytes(void **state)
{
    static const char *const texts[] = {
        "event: start\ndata: {\"event\":\"start\"}\n\n"
        "event: queued\ndata: {\"event\":\"queued\",\"ahead\":2}\n\n"
        "event: end\ndata: {\"event\":\"end\",\"status\":\"error\"}\n\n",
        "{\"event\":\"start\"}\n{\"event\":\"queued\",\"ahead\":2}\n"
        "{\"event\":\"end\",\"status\":\"error\"}\n"};
    struct shim_side *side = *state;
    for (uint64_t tag = 1; tag <= 2; tag++) {
        struct event_stream *stream = open_stream(side, tag, formats[tag - 1]);
        event_stream_put(stream, "start", json_object());
        event_stream_put(stream, "queued", json_pack("{s:i}", "ahead", 2));
        finish_stream(stream, tag);
        read_to_end(side, tag);
        assert_int_equal(side->heard[tag].bytes.length, strlen(texts[tag - 1]));
        assert_memory_equal(side->heard[tag].bytes.data, texts[tag - 1], strlen(texts[tag - 1]));
    }
}

/* Where a text is kept is no event: who reads the stream has all of it. */
static void whole_text_is_no_event(void **state)
{
    struct shim_side *side = *state;
    struct event_stream *stream = open_stream(side, 1, STREAM_SSE);
    struct recorder *recorder = event_stream_recorder(stream);
    recorder->type->whole_text(recorder, STREAM_STDOUT, "/tmp/text");
    finish_stream(stream, 1);
    read_to_end(side, 1);
    expect_events(side, 1, STREAM_SSE, "[{\"event\":\"end\",\"status\":\"error\"}]");
}

static void what_is_left_out_of_a_display_is_cut(void **state)
{
    struct shim_side *side = *state;
    struct event_stream *stream = open_stream(side, 1, STREAM_NDJSON);
    show(stream, (struct display){.number = 0}, "{\"data\":{\"a/a\":1,\"b/b\":\"fine\"}}");
    assert_true(is_cut(stream));
    finish_stream(stream, 1);
    read_to_end(side, 1);
    expect_events(side, 1, STREAM_NDJSON,
                  "[{\"event\":\"result\",\"output\":0,\"results\":[{\"type\":\"b/b\",\"data\":"
                  "\"fine\",\"output\":0}]},{\"event\":\"end\",\"status\":\"error\"}]");
}

/* --- life ----------------------------------------------------------------------------------- */

static void events_come_at_once(void **state)
{
    struct shim_side *side = *state;
    struct event_stream *stream = open_stream(side, 1, STREAM_NDJSON);
    struct event_stream *other = open_stream(side, 2, STREAM_SSE);
    put_text(stream, STREAM_STDOUT, "x", 1);
    RUN_UNTIL(side->loop, side->heard[1].bytes.length > 0);
    expect_events(side, 1, STREAM_NDJSON, "[{\"event\":\"stdout\",\"text\":\"x\"}]");
    finish_stream(other, 2);
    read_to_end(side, 2);
    assert_int_equal(side->heard[1].results, 0);
    finish_stream(stream, 1);
    read_to_end(side, 1);
    assert_int_equal(side->changes, 0);
}

static void fill(struct event_stream *stream, size_t bytes)
{
    static char text[64 * KIB];
    memset(text, 'x', sizeof text);
    for (size_t put = 0; put < bytes; put += sizeof text)
        put_text(stream, STREAM_STDOUT, text, sizeof text);
}

/* Its execution goes on, and does not notice; the answer comes when it has ended. */
static void discarded_while_it_runs(void **state)
{
    struct shim_side *side = *state;
    struct event_stream *stream = open_stream(side, 1, STREAM_SSE);
    fill(stream, 2 * MIB);
    assert_true(event_stream_full(stream));
    assert_int_equal(side->changes, 1);
    RUN_UNTIL(side->loop, side->heard[1].in_flight == STREAM_WINDOW_BYTES);
    event_streams_discard(side->streams, ticket_of(side, 1));
    assert_false(event_stream_full(stream));
    assert_int_equal(side->changes, 2);
    fill(stream, 4 * MIB);
    show(stream, (struct display){.number = 0}, "{\"data\":{\"a/a\":\"1\"}}");
    assert_false(event_stream_full(stream));
    reader_credit(side, 1, STREAM_WINDOW_BYTES);
    skip_time(STREAM_SILENCE_MILLISECONDS);
    run_for(side->loop, 5);
    assert_int_equal(side->heard[1].bytes.length, STREAM_WINDOW_BYTES);
    assert_int_equal(side->heard[1].results, 0);
    finish_stream(stream, 1);
    RUN_UNTIL(side->loop, side->heard[1].results == 1);
    assert_int_equal(side->heard[1].head.duration_ms, 1001);
    assert_int_equal(side->heard[1].bytes.length, STREAM_WINDOW_BYTES);
    assert_int_equal(side->changes, 2);
    event_streams_discard(side->streams, ticket_of(side, 1)); /* it is gone */
}

/* The execution is over, its client slow; then the client leaves. */
static void discarded_after_its_end(void **state)
{
    struct shim_side *side = *state;
    struct event_stream *stream = open_stream(side, 1, STREAM_SSE);
    fill(stream, 512 * KIB);
    finish_stream(stream, 1);
    RUN_UNTIL(side->loop, side->heard[1].in_flight == STREAM_WINDOW_BYTES);
    assert_int_equal(side->heard[1].results, 0);
    event_streams_discard(side->streams, ticket_of(side, 2)); /* another one */
    run_for(side->loop, 5);
    assert_int_equal(side->heard[1].results, 0);
    event_streams_discard(side->streams, ticket_of(side, 1));
    RUN_UNTIL(side->loop, side->heard[1].results == 1);
    assert_int_equal(side->heard[1].bytes.length, STREAM_WINDOW_BYTES);
}

/* A new huskd: the streams of the old one are read by nobody, whatever numbers the new one uses. */
static void discard_old(void **state)
{
    struct shim_side *side = *state;
    struct event_stream *running = open_stream(side, 1, STREAM_SSE);
    struct event_stream *ended = open_stream(side, 2, STREAM_SSE);
    fill(running, 2 * MIB);
    fill(ended, 2 * MIB);
    finish_stream(ended, 2);
    RUN_UNTIL(side->loop, side->heard[2].in_flight == STREAM_WINDOW_BYTES);
    assert_int_equal(side->changes, 2);
    event_streams_discard_old(side->streams); /* none is */
    assert_true(event_stream_full(running));
    assert_int_equal(side->changes, 2);
    reader_connect(side);
    struct event_stream *fresh = open_stream(side, 1, STREAM_NDJSON);
    event_streams_discard_old(side->streams);
    assert_int_equal(side->changes, 4);
    assert_false(event_stream_full(running));
    buffer_clear(&side->heard[1].bytes);
    side->heard[1].in_flight = 0;
    fill(running, 2 * MIB);
    finish_stream(running, 1);
    put_text(fresh, STREAM_STDERR, "new", 3);
    finish_stream(fresh, 1);
    read_to_end(side, 1);
    expect_events(side, 1, STREAM_NDJSON,
                  "[{\"event\":\"stderr\",\"text\":\"new\"},"
                  "{\"event\":\"end\",\"status\":\"error\"}]");
    assert_int_equal(side->heard[2].results, 0);
}

/* huskd is away, and may stay so. */
static void nobody_connected(void **state)
{
    struct shim_side *side = *state;
    struct event_stream *stream = open_stream(side, 1, STREAM_SSE);
    reader_leave(side);
    RUN_UNTIL(side->loop, !connection_knows(side->connection, ticket_of(side, 1)));
    fill(stream, 4 * MIB);
    assert_true(event_stream_full(stream));
    skip_time(STREAM_STALL_MILLISECONDS);
    RUN_UNTIL(side->loop, !event_stream_full(stream));
    finish_stream(stream, 1);
    reader_connect(side);
    event_streams_discard_old(side->streams);
    run_for(side->loop, 5);
    assert_int_equal(side->heard[1].bytes.length, 0);
    assert_int_equal(side->heard[1].results, 0);
}

static void not_more_than_there_may_be(void **state)
{
    struct shim_side *side = *state;
    struct event_stream *streams[MAX_EVENT_STREAMS + 2] = {0};
    for (uint64_t tag = 1; tag <= MAX_EVENT_STREAMS; tag++)
        streams[tag] = open_stream(side, tag, STREAM_SSE);
    struct ticket more = ticket_of(side, MAX_EVENT_STREAMS + 1);
    assert_null(event_stream_open(side->streams, more, STREAM_SSE));
    finish_stream(streams[7], 7);
    streams[MAX_EVENT_STREAMS + 1] = event_stream_open(side->streams, more, STREAM_SSE);
    assert_non_null(streams[MAX_EVENT_STREAMS + 1]);
    assert_null(event_stream_open(side->streams, ticket_of(side, 7), STREAM_SSE));
    for (uint64_t tag = 1; tag <= MAX_EVENT_STREAMS + 1; tag++) {
        if (tag != 7)
            finish_stream(streams[tag], tag);
        read_to_end(side, tag);
    }
    assert_non_null(event_stream_open(side->streams, more, STREAM_SSE));
}

/* A shim that ends while streams are open, some of them full; the sanitizer and valgrind look for what is left. */
static void freed_with_open_streams(void **state)
{
    struct shim_side *side = *state;
    fill(open_stream(side, 1, STREAM_SSE), 2 * MIB);
    (void)open_stream(side, 2, STREAM_NDJSON);
    struct event_stream *ended = open_stream(side, 3, STREAM_NDJSON);
    fill(ended, 512 * KIB);
    finish_stream(ended, 3);
    assert_null(event_streams_free(NULL));
}

static void silence_is_broken(void **state)
{
    struct shim_side *side = *state;
    struct event_stream *events = open_stream(side, 1, STREAM_SSE);
    struct event_stream *lines = open_stream(side, 2, STREAM_NDJSON);
    struct event_stream *slow = open_stream(side, 3, STREAM_NDJSON);
    struct event_stream *busy = open_stream(side, 4, STREAM_NDJSON);
    fill(slow, 512 * KIB);
    RUN_UNTIL(side->loop, side->heard[3].in_flight == STREAM_WINDOW_BYTES);
    skip_time(STREAM_SILENCE_MILLISECONDS - 3000);
    put_text(busy, STREAM_STDOUT, "x", 1);
    run_for(side->loop, 5);
    assert_int_equal(side->heard[1].bytes.length, 0);
    skip_time(3000);
    RUN_UNTIL(side->loop, side->heard[1].bytes.length > 0 && side->heard[2].bytes.length > 0);
    assert_int_equal(side->heard[1].bytes.length, strlen(": keep-alive\n\n"));
    assert_memory_equal(side->heard[1].bytes.data, ": keep-alive\n\n", 14);
    expect_events(side, 2, STREAM_NDJSON, "[{\"event\":\"keepalive\"}]");
    expect_events(side, 4, STREAM_NDJSON, "[{\"event\":\"stdout\",\"text\":\"x\"}]");
    skip_time(STREAM_SILENCE_MILLISECONDS); /* and again */
    RUN_UNTIL(side->loop, side->heard[1].bytes.length == 28);
    assert_int_equal(side->heard[3].bytes.length, STREAM_WINDOW_BYTES);
    finish_stream(events, 1);
    finish_stream(lines, 2);
    finish_stream(slow, 3);
    finish_stream(busy, 4);
    skip_time(STREAM_SILENCE_MILLISECONDS);
    for (uint64_t tag = 1; tag <= 4; tag++)
        read_to_end(side, tag);
    expect_events(side, 2, STREAM_NDJSON,
                  "[{\"event\":\"keepalive\"},{\"event\":\"keepalive\"},"
                  "{\"event\":\"end\",\"status\":\"error\"}]");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(text_is_ascii),           TEST(displays),
        TEST(exceptions_and_clearing), TEST(exact_bytes),
        TEST(whole_text_is_no_event),  TEST(what_is_left_out_of_a_display_is_cut),
        TEST(events_come_at_once),     TEST(discarded_while_it_runs),
        TEST(discarded_after_its_end), TEST(discard_old),
        TEST(nobody_connected),        TEST(not_more_than_there_may_be),
        TEST(freed_with_open_streams), TEST(silence_is_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
