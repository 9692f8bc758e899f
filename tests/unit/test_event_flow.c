/* A stream and its reader: what may be in flight, who waits for whom, and what is lost when nobody reads. */
#include "stream_reader.h"

#include "skip_time.h"

enum {
    TEXT = 64 * KIB,
    MEMBERS = TEXT + 9,   /* "text":"…" */
    EVENT = MEMBERS + 20, /* {"event":"stdout",…} and the end of the line */
    ROOM = STREAM_WINDOW_BYTES + STREAM_PENDING_BYTES,
    UNTIL_FULL = ROOM / EVENT + 1 /* events that make a stream full without a reader */
};

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

/* Events of EVENT bytes. Each holds its number, so that none can be taken for another. */
static void put(struct event_stream *stream, size_t first, size_t count)
{
    static char text[TEXT + 1];
    struct recorder *recorder = event_stream_recorder(stream);
    for (size_t i = first; i < first + count; i++) {
        memset(text, 'a' + (int)(i % 26), TEXT);
        int digits = snprintf(text, 16, "%zu", i);
        text[digits] = ' ';
        recorder->type->text(recorder, STREAM_STDOUT, text, TEXT);
    }
}

/* Which of those an event is. */
static long number_of(const json_t *events, size_t index)
{
    const json_t *text = json_object_get(json_array_get(events, index), "text");
    assert_string_equal(event_name(events, index), "stdout");
    assert_int_equal(json_string_length(text), TEXT);
    return strtol(json_string_value(text), NULL, 10);
}

static void expect_dropped(const json_t *events, size_t index, size_t count)
{
    const json_t *event = json_array_get(events, index);
    assert_string_equal(event_name(events, index), "dropped");
    assert_int_equal(json_integer_value(json_object_get(event, "events")), count);
    assert_int_equal(json_integer_value(json_object_get(event, "bytes")), count * MEMBERS);
    assert_int_equal(json_object_size(event), 3);
}

static bool is_cut(struct event_stream *stream)
{
    struct recorder *recorder = event_stream_recorder(stream);
    return recorder->type->is_cut(recorder);
}

/* Let the client have all that has been put, which makes so many bytes; then it reads no more. */
static void catch_up(struct shim_side *side, uint64_t tag, size_t bytes)
{
    side->eager = true;
    reader_credit(side, tag, (uint32_t)side->heard[tag].in_flight);
    RUN_UNTIL(side->loop, side->heard[tag].bytes.length == bytes);
    side->eager = false;
}

/* --- credit --------------------------------------------------------------------------------- */

static void never_more_than_the_window(void **state)
{
    struct shim_side *side = *state;
    struct heard *heard = &side->heard[1];
    struct event_stream *stream = open_stream(side, 1, STREAM_NDJSON);
    put(stream, 0, 8);
    RUN_UNTIL(side->loop, heard->in_flight == STREAM_WINDOW_BYTES);
    put(stream, 8, 1);
    run_for(side->loop, 5);
    assert_int_equal(heard->bytes.length, STREAM_WINDOW_BYTES);
    assert_true(heard->frames >= STREAM_WINDOW_BYTES / STREAM_CHUNK_BYTES);
    /* As much as there is credit for, be it little. */
    reader_credit(side, 1, 1);
    RUN_UNTIL(side->loop, heard->bytes.length == STREAM_WINDOW_BYTES + 1);
    reader_credit(side, 1, 3 * STREAM_CHUNK_BYTES + 5);
    RUN_UNTIL(side->loop, heard->bytes.length == STREAM_WINDOW_BYTES + 3 * STREAM_CHUNK_BYTES + 6);
    assert_int_equal(heard->in_flight, STREAM_WINDOW_BYTES);
    finish_stream(stream, 1);
    run_for(side->loop, 5);
    assert_int_equal(heard->results, 0);
    read_to_end(side, 1);
    json_t *events = events_heard(heard, STREAM_NDJSON);
    assert_int_equal(json_array_size(events), 10);
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(number_of(events, i), i);
    json_decref(events);
}

/* The answer waits for the last byte, not longer. */
static void result_after_the_last_byte(void **state)
{
    struct shim_side *side = *state;
    struct heard *heard = &side->heard[1];
    struct event_stream *stream = open_stream(side, 1, STREAM_NDJSON);
    static const char end[] = "{\"event\":\"end\",\"status\":\"error\"}\n";
    put(stream, 0, 4);
    finish_stream(stream, 1);
    size_t whole = 4 * EVENT + sizeof end - 1;
    RUN_UNTIL(side->loop, heard->in_flight == STREAM_WINDOW_BYTES);
    reader_credit(side, 1, (uint32_t)(whole - STREAM_WINDOW_BYTES - 1));
    RUN_UNTIL(side->loop, heard->bytes.length == whole - 1);
    run_for(side->loop, 5);
    assert_int_equal(heard->results, 0);
    reader_credit(side, 1, 1);
    RUN_UNTIL(side->loop, heard->results == 1);
    assert_int_equal(heard->bytes.length, whole);
    reader_credit(side, 1, 1); /* of a stream that is gone */
    run_for(side->loop, 5);
}

static void excessive_credit_is_ignored(void **state)
{
    struct shim_side *side = *state;
    struct heard *heard = &side->heard[1];
    struct event_stream *stream = open_stream(side, 1, STREAM_NDJSON);
    reader_credit(side, 1, 1); /* nothing was sent */
    reader_credit(side, 1, UINT32_MAX);
    run_for(side->loop, 5);
    put(stream, 0, 8);
    RUN_UNTIL(side->loop, heard->in_flight == STREAM_WINDOW_BYTES);
    reader_credit(side, 1, STREAM_WINDOW_BYTES + 1);
    heard->in_flight = STREAM_WINDOW_BYTES;
    run_for(side->loop, 5);
    assert_int_equal(heard->bytes.length, STREAM_WINDOW_BYTES);
    reader_credit(side, 2, STREAM_WINDOW_BYTES); /* of no stream */
    run_for(side->loop, 5);
    assert_int_equal(heard->bytes.length, STREAM_WINDOW_BYTES);
    finish_stream(stream, 1);
    read_to_end(side, 1);
}

/* Several MiB, byte for byte; the owner holds its output while the stream is full, as the real one does. */
static void nothing_is_lost_by_a_reader(void **state)
{
    enum {
        EVENTS = 160
    };
    struct shim_side *side = *state;
    struct event_stream *stream = open_stream(side, 1, STREAM_NDJSON);
    side->eager = true;
    for (size_t i = 0; i < EVENTS; i++) {
        put(stream, i, 1);
        if (event_stream_full(stream))
            RUN_UNTIL(side->loop, !event_stream_full(stream));
    }
    assert_true(side->changes >= 2);
    assert_int_equal(side->changes % 2, 0);
    assert_false(is_cut(stream));
    finish_stream(stream, 1);
    read_to_end(side, 1);
    json_t *events = events_heard(&side->heard[1], STREAM_NDJSON);
    assert_int_equal(json_array_size(events), EVENTS + 1);
    assert_int_equal(side->heard[1].bytes.length / EVENT, EVENTS);
    for (size_t i = 0; i < EVENTS; i++) {
        const char *text = json_string_value(json_object_get(json_array_get(events, i), "text"));
        assert_int_equal(number_of(events, i), i);
        assert_int_equal(strspn(text + 8, (char[]){(char)('a' + i % 26), '\0'}), TEXT - 8);
    }
    json_decref(events);
}

/* Many small ones, and credit that never fits their bounds. */
static void small_events_and_odd_credit(void **state)
{
    enum {
        EVENTS = 50000
    };
    struct shim_side *side = *state;
    struct heard *heard = &side->heard[1];
    struct event_stream *stream = open_stream(side, 1, STREAM_SSE);
    _cleanup_buffer_ struct buffer expected = {0};
    for (int i = 0; i < EVENTS; i++) {
        event_stream_put(stream, "n", json_pack("{s:i}", "i", i));
        assert_int_equal(
            buffer_printf(&expected, "event: n\ndata: {\"event\":\"n\",\"i\":%d}\n\n", i), 0);
        if (heard->in_flight > 77777)
            reader_credit(side, 1, 77777);
        if (event_stream_full(stream) || i % 5000 == 0)
            run_for(side->loop, 1);
    }
    finish_stream(stream, 1);
    read_to_end(side, 1);
    assert_true(heard->bytes.length > expected.length);
    assert_memory_equal(heard->bytes.data, expected.data, expected.length);
}

/* One event may be larger than all that may wait. */
static void one_large_event(void **state)
{
    struct shim_side *side = *state;
    struct event_stream *stream = open_stream(side, 1, STREAM_SSE);
    struct recorder *recorder = event_stream_recorder(stream);
    char *text = malloc(10 * MIB + 1);
    assert_non_null(text);
    memset(text, 'z', 10 * MIB);
    text[10 * MIB] = '\0';
    json_t *content = json_pack("{s:{s:s}}", "data", "text/plain", text);
    recorder->type->display(recorder, &(struct display){.number = 5, .content = content});
    assert_true(event_stream_full(stream));
    assert_int_equal(side->changes, 1);
    RUN_UNTIL(side->loop, side->heard[1].in_flight == STREAM_WINDOW_BYTES);
    side->eager = true;
    reader_credit(side, 1, STREAM_WINDOW_BYTES);
    RUN_UNTIL(side->loop, !event_stream_full(stream));
    assert_int_equal(side->changes, 2);
    assert_false(is_cut(stream));
    finish_stream(stream, 1);
    read_to_end(side, 1);
    json_t *events = events_heard(&side->heard[1], STREAM_SSE);
    assert_int_equal(json_array_size(events), 2);
    json_t *results = json_object_get(json_array_get(events, 0), "results");
    const json_t *data = json_object_get(json_array_get(results, 0), "data");
    assert_int_equal(json_string_length(data), 10 * MIB);
    assert_memory_equal(json_string_value(data), text, 10 * MIB);
    json_decref(events);
    json_decref(content);
    free(text);
}

/* Nobody holds the kernel's output in the middle of a message that updates much: there is a bound for that, too. */
static void many_large_events(void **state)
{
    struct shim_side *side = *state;
    struct event_stream *other = open_stream(side, 2, STREAM_SSE);
    struct event_stream *stream = open_stream(side, 1, STREAM_SSE);
    struct recorder *recorder = event_stream_recorder(stream);
    char *text = malloc(10 * MIB + 1);
    assert_non_null(text);
    memset(text, 'z', 10 * MIB);
    text[10 * MIB] = '\0';
    json_t *content = json_pack("{s:{s:s}}", "data", "text/plain", text);
    for (size_t i = 0; i < MAX_RESULTS; i++)
        recorder->type->display(recorder, &(struct display){.number = i, .content = content});
    put(other, 0, 1); /* what is small still fits */
    assert_true(is_cut(stream));
    assert_false(is_cut(other));
    finish_stream(stream, 1);
    finish_stream(other, 2);
    side->eager = true;
    reader_credit(side, 1, (uint32_t)side->heard[1].in_flight);
    read_to_end(side, 1);
    assert_in_range(side->heard[1].bytes.length, MAX_PENDING_BYTES - 20 * MIB, MAX_PENDING_BYTES);
    json_t *events = events_heard(&side->heard[1], STREAM_SSE);
    size_t count = json_array_size(events);
    const json_t *dropped = json_array_get(events, count - 2);
    assert_string_equal(event_name(events, count - 2), "dropped");
    assert_int_equal(json_integer_value(json_object_get(dropped, "events")),
                     MAX_RESULTS - (count - 2));
    json_decref(events);
    json_decref(content);
    free(text);
}

/* --- full ----------------------------------------------------------------------------------- */

static void full_and_no_longer(void **state)
{
    struct shim_side *side = *state;
    struct event_stream *stream = open_stream(side, 1, STREAM_NDJSON);
    put(stream, 0, UNTIL_FULL - 1);
    assert_false(event_stream_full(stream));
    assert_int_equal(side->changes, 0);
    put(stream, UNTIL_FULL - 1, 1);
    assert_true(event_stream_full(stream));
    assert_int_equal(side->changes, 1);
    put(stream, UNTIL_FULL, 3); /* what came before the output was held */
    assert_true(event_stream_full(stream));
    assert_int_equal(side->changes, 1);
    RUN_UNTIL(side->loop, side->heard[1].in_flight == STREAM_WINDOW_BYTES);
    for (int i = 1; event_stream_full(stream); i++) {
        assert_true(i < 8);
        assert_int_equal(side->changes, 1);
        size_t before = side->heard[1].bytes.length;
        reader_credit(side, 1, STREAM_CHUNK_BYTES);
        RUN_UNTIL(side->loop, side->heard[1].bytes.length == before + STREAM_CHUNK_BYTES);
    }
    size_t waiting = (UNTIL_FULL + 3) * EVENT - side->heard[1].bytes.length;
    assert_in_range(waiting, STREAM_PENDING_BYTES - STREAM_CHUNK_BYTES, STREAM_PENDING_BYTES);
    assert_int_equal(side->changes, 2);
    put(stream, UNTIL_FULL + 3, 2);
    assert_true(event_stream_full(stream));
    assert_int_equal(side->changes, 3);
    assert_false(is_cut(stream));
    finish_stream(stream, 1);
    read_to_end(side, 1);
    json_t *events = events_heard(&side->heard[1], STREAM_NDJSON);
    assert_int_equal(json_array_size(events), UNTIL_FULL + 3 + 2 + 1);
    json_decref(events);
    assert_int_equal(side->changes, 4);
}

/* An execution that must end does not wait for its reader; who reads on hears of one gap and of the end. */
static void hurry(void **state)
{
    struct shim_side *side = *state;
    struct event_stream *stream = open_stream(side, 1, STREAM_NDJSON);
    put(stream, 0, UNTIL_FULL);
    assert_true(event_stream_full(stream));
    event_stream_hurry(stream);
    assert_false(event_stream_full(stream));
    assert_int_equal(side->changes, 2);
    assert_false(is_cut(stream));
    put(stream, UNTIL_FULL, 7);
    assert_false(event_stream_full(stream));
    assert_true(is_cut(stream));
    assert_int_equal(side->changes, 2);
    finish_stream(stream, 1);
    read_to_end(side, 1);
    json_t *events = events_heard(&side->heard[1], STREAM_NDJSON);
    assert_int_equal(json_array_size(events), UNTIL_FULL + 2);
    for (size_t i = 0; i < UNTIL_FULL; i++)
        assert_int_equal(number_of(events, i), i);
    expect_dropped(events, UNTIL_FULL, 7);
    assert_string_equal(event_name(events, UNTIL_FULL + 1), "end");
    json_decref(events);
}

/* The gap is not filled with an event here and there: half of the room must be free first. */
static void one_gap(void **state)
{
    struct shim_side *side = *state;
    struct heard *heard = &side->heard[1];
    struct event_stream *stream = open_stream(side, 1, STREAM_NDJSON);
    event_stream_hurry(stream);
    assert_int_equal(side->changes, 0);
    put(stream, 0, UNTIL_FULL + 2); /* the last two are dropped */
    RUN_UNTIL(side->loop, heard->in_flight == STREAM_WINDOW_BYTES);
    size_t number = UNTIL_FULL + 2, dropped = 2;
    for (;; number++) {
        size_t waiting = UNTIL_FULL * EVENT - heard->bytes.length;
        if (waiting <= STREAM_PENDING_BYTES / 2)
            break;
        put(stream, number, 1);
        dropped++;
        assert_true(dropped < 100);
        size_t before = heard->bytes.length;
        reader_credit(side, 1, STREAM_CHUNK_BYTES);
        RUN_UNTIL(side->loop, heard->bytes.length == before + STREAM_CHUNK_BYTES);
    }
    assert_in_range(dropped, 8, 11);
    put(stream, number, 2);
    finish_stream(stream, 1);
    read_to_end(side, 1);
    json_t *events = events_heard(heard, STREAM_NDJSON);
    assert_int_equal(json_array_size(events), UNTIL_FULL + 1 + 2 + 1);
    expect_dropped(events, UNTIL_FULL, dropped);
    assert_int_equal(number_of(events, UNTIL_FULL + 1), number);
    assert_int_equal(number_of(events, UNTIL_FULL + 2), number + 1);
    json_decref(events);
}

/* Two seconds without credit, then events are dropped, until the client has caught up; then the stream holds again. */
static void stall_and_recovery(void **state)
{
    struct shim_side *side = *state;
    struct event_stream *stream = open_stream(side, 1, STREAM_NDJSON);
    put(stream, 0, UNTIL_FULL);
    RUN_UNTIL(side->loop, side->heard[1].in_flight == STREAM_WINDOW_BYTES);
    assert_true(event_stream_full(stream));
    skip_time(STREAM_STALL_MILLISECONDS);
    RUN_UNTIL(side->loop, !event_stream_full(stream));
    assert_int_equal(side->changes, 2);
    assert_false(is_cut(stream));
    put(stream, UNTIL_FULL, 5);
    assert_false(event_stream_full(stream));
    assert_int_equal(side->changes, 2);
    assert_true(is_cut(stream));

    catch_up(side, 1, UNTIL_FULL * EVENT);
    put(stream, 100, UNTIL_FULL);
    assert_true(event_stream_full(stream));
    assert_int_equal(side->changes, 3);
    put(stream, 100 + UNTIL_FULL, 1); /* it holds, so nothing is dropped */
    RUN_UNTIL(side->loop, side->heard[1].in_flight == STREAM_WINDOW_BYTES);
    skip_time(STREAM_STALL_MILLISECONDS); /* and again */
    RUN_UNTIL(side->loop, !event_stream_full(stream));
    assert_int_equal(side->changes, 4);
    put(stream, 200, 2);
    finish_stream(stream, 1);
    read_to_end(side, 1);
    json_t *events = events_heard(&side->heard[1], STREAM_NDJSON);
    size_t at = UNTIL_FULL;
    expect_dropped(events, at++, 5);
    for (size_t i = 0; i < UNTIL_FULL + 1; i++)
        assert_int_equal(number_of(events, at++), 100 + i);
    expect_dropped(events, at++, 2);
    assert_string_equal(event_name(events, at), "end");
    assert_int_equal(json_array_size(events), at + 1);
    json_decref(events);
}

/* A reader that takes a little now and then is slow, not stalled. */
static void slow_is_not_stalled(void **state)
{
    struct shim_side *side = *state;
    struct event_stream *stream = open_stream(side, 1, STREAM_NDJSON);
    put(stream, 0, UNTIL_FULL + 10);
    RUN_UNTIL(side->loop, side->heard[1].in_flight == STREAM_WINDOW_BYTES);
    for (int i = 0; i < 10; i++) {
        skip_time(STREAM_STALL_MILLISECONDS / 2);
        size_t before = side->heard[1].bytes.length;
        reader_credit(side, 1, 100);
        RUN_UNTIL(side->loop, side->heard[1].bytes.length == before + 100);
        assert_true(event_stream_full(stream));
    }
    assert_int_equal(side->changes, 1);
    finish_stream(stream, 1);
    read_to_end(side, 1);
    json_t *events = events_heard(&side->heard[1], STREAM_NDJSON);
    assert_int_equal(json_array_size(events), UNTIL_FULL + 10 + 1);
    json_decref(events);
}

/* What is not full does not stall, however long its reader takes. */
static void not_full_never_stalls(void **state)
{
    struct shim_side *side = *state;
    struct event_stream *stream = open_stream(side, 1, STREAM_NDJSON);
    put(stream, 0, UNTIL_FULL - 1);
    skip_time(10 * STREAM_STALL_MILLISECONDS);
    run_for(side->loop, 5);
    put(stream, UNTIL_FULL - 1, 2);
    assert_true(event_stream_full(stream)); /* from now on two seconds */
    assert_false(is_cut(stream));
    finish_stream(stream, 1);
    read_to_end(side, 1);
}

/* One stream that nobody reads changes nothing for another. */
static void streams_do_not_mind_each_other(void **state)
{
    struct shim_side *side = *state;
    struct event_stream *stuck = open_stream(side, 1, STREAM_NDJSON);
    struct event_stream *read = open_stream(side, 2, STREAM_NDJSON);
    put(stuck, 0, UNTIL_FULL);
    for (size_t i = 0; i < 100; i++) {
        put(read, i, 1);
        RUN_UNTIL(side->loop, side->heard[2].bytes.length == (i + 1) * EVENT);
        reader_credit(side, 2, EVENT);
        assert_false(event_stream_full(read));
    }
    assert_true(event_stream_full(stuck));
    assert_int_equal(side->heard[1].bytes.length, STREAM_WINDOW_BYTES);
    finish_stream(read, 2);
    RUN_UNTIL(side->loop, side->heard[2].results == 1);
    finish_stream(stuck, 1);
    read_to_end(side, 1);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(never_more_than_the_window),
        TEST(result_after_the_last_byte),
        TEST(excessive_credit_is_ignored),
        TEST(nothing_is_lost_by_a_reader),
        TEST(small_events_and_odd_credit),
        TEST(one_large_event),
        TEST(many_large_events),
        TEST(full_and_no_longer),
        TEST(hurry),
        TEST(one_gap),
        TEST(stall_and_recovery),
        TEST(slow_is_not_stalled),
        TEST(not_full_never_stalls),
        TEST(streams_do_not_mind_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
