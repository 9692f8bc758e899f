/* Who answers input(), and when. */
#include "stream_reader.h"

/* A copy of the module under other names, whose messages to the kernel come here. */
#define kernel_send     send_here
#define input_init      tested_init
#define input_free      tested_free
#define input_mode_name tested_mode_name
#define input_note      tested_note
#define input_request   tested_request
#define input_answer    tested_answer
#include "shim/input.c"

struct fixture {
    struct shim_side *side;
    struct event_stream *stream;
    struct input input;
};

/* The last message to the kernel; how many there were, and what the next ones come to. */
static struct {
    unsigned count;
    char value[64];
    size_t length;
    json_int_t parent;
    int result;
} sent;

static struct kernel *const kernel = (struct kernel *)(void *)&sent;

int kernel_send(struct kernel *to, enum channel channel, const struct message_body *body,
                uint64_t *ret_number)
{
    const json_t *value = json_object_get(body->content, "value");
    assert_ptr_equal(to, kernel);
    assert_int_equal(channel, CHANNEL_STDIN);
    assert_string_equal(body->type, "input_reply");
    assert_string_equal(json_string_value(json_object_get(body->content, "status")), "ok");
    assert_true(json_is_string(value));
    sent.count++;
    sent.length = json_string_length(value);
    (void)snprintf(sent.value, sizeof sent.value, "%s", json_string_value(value));
    sent.parent = json_integer_value(json_object_get(body->parent, "number"));
    *ret_number = sent.count;
    return sent.result;
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    memset(&sent, 0, sizeof sent);
    fixture->side = shim_side_start();
    fixture->stream = open_stream(fixture->side, 1, STREAM_NDJSON);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    input_free(&fixture->input);
    shim_side_stop(fixture->side);
    free(fixture);
    return 0;
}

static void give(struct fixture *fixture, const char *const *lines, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        assert_int_equal(json_array_append_new(list, json_string(lines[i])), 0);
    input_init(&fixture->input, INPUT_GIVEN, list);
    json_decref(list);
}

/* The request with this number comes; `content` is stolen. */
static void ask_for(struct fixture *fixture, int number, json_t *content)
{
    json_t *header = json_pack("{s:i}", "number", number);
    struct message message = {.type = "input_request", .header = header, .content = content};
    input_request(&fixture->input, &message, kernel, fixture->stream);
    json_decref(header);
    json_decref(content);
}

static void ask(struct fixture *fixture, int number)
{
    ask_for(fixture, number, json_pack("{s:s, s:b}", "prompt", "name? ", "password", 0));
}

static void note(struct fixture *fixture)
{
    input_note(&fixture->input, kernel, fixture->stream);
}

static int answer(struct fixture *fixture, const char *text)
{
    json_t *value = text ? json_string(text) : NULL;
    int r = input_answer(&fixture->input, value, kernel);
    json_decref(value);
    return r;
}

/* The events that the caller has had. */
static json_t *told(struct fixture *fixture)
{
    struct shim_side *side = fixture->side;
    event_stream_put(fixture->stream, "mark", json_object());
    static const char mark[] = "{\"event\":\"mark\"}\n";
    struct buffer *bytes = &side->heard[1].bytes;
    RUN_UNTIL(side->loop,
              bytes->length >= strlen(mark) &&
                  !memcmp(bytes->data + bytes->length - strlen(mark), mark, strlen(mark)));
    bytes->length -= strlen(mark);
    return events_heard(&side->heard[1], STREAM_NDJSON);
}

static size_t times_told(struct fixture *fixture)
{
    json_t *events = told(fixture);
    size_t count = json_array_size(events);
    json_decref(events);
    return count;
}

static void expect_sent(unsigned count, json_int_t parent, const char *value)
{
    assert_int_equal(sent.count, count);
    assert_int_equal(sent.parent, parent);
    assert_string_equal(sent.value, value);
    assert_int_equal(sent.length, strlen(value));
}

static void names(void **state)
{
    static const char *const names[] = {"none", "given", "ask"};
    struct fixture *fixture = *state;
    for (int mode = INPUT_NONE; mode <= INPUT_ASK; mode++) {
        input_init(&fixture->input, (enum input_mode)mode, NULL);
        assert_string_equal(input_mode_name(&fixture->input), names[mode]);
    }
}

/* A kernel that asks nevertheless is not answered. */
static void nothing_is_asked_without_input(void **state)
{
    struct fixture *fixture = *state;
    input_init(&fixture->input, INPUT_NONE, NULL);
    ask(fixture, 1);
    note(fixture);
    assert_int_equal(answer(fixture, "x"), -ENOENT);
    assert_int_equal(sent.count, 0);
    assert_int_equal(times_told(fixture), 0);
}

/* In either order of note and request. Then the end of input, as often as it is asked for. */
static void given_lines(void **state)
{
    static const char *const lines[] = {"first", "", "third"};
    struct fixture *fixture = *state;
    give(fixture, lines, ARRAY_LENGTH(lines));
    for (unsigned i = 0; i < 5; i++) {
        i % 2 ? note(fixture) : ask(fixture, (int)i);
        assert_int_equal(sent.count, i);
        i % 2 ? ask(fixture, (int)i) : note(fixture);
        expect_sent(i + 1, i, i < 3 ? lines[i] : "\x04");
        assert_int_equal(fixture->input.next_line, i < 3 ? i + 1 : 3);
    }
    assert_int_equal(answer(fixture, "x"), -ENOENT); /* it is not the caller who answers */
    assert_int_equal(times_told(fixture), 0);
}

static void no_lines_are_the_end(void **state)
{
    struct fixture *fixture = *state;
    give(fixture, NULL, 0);
    note(fixture);
    ask(fixture, 7);
    expect_sent(1, 7, "\x04");
}

/* A line that could not be sent is not sent with the next question. */
static void given_to_a_kernel_that_is_gone(void **state)
{
    static const char *const lines[] = {"first", "second"};
    struct fixture *fixture = *state;
    give(fixture, lines, 2);
    sent.result = -ENOTCONN;
    note(fixture);
    ask(fixture, 1);
    assert_int_equal(sent.count, 1);
    sent.result = 0;
    note(fixture);
    ask(fixture, 2);
    expect_sent(2, 2, "second");
}

static void asking_the_caller(void **state)
{
    struct fixture *fixture = *state;
    input_init(&fixture->input, INPUT_ASK, NULL);
    assert_int_equal(answer(fixture, "early"), -ENOENT);
    note(fixture);
    assert_int_equal(answer(fixture, "early"), -ENOENT);
    ask(fixture, 1);
    assert_int_equal(times_told(fixture), 1);
    assert_int_equal(answer(fixture, "line"), 0);
    expect_sent(1, 1, "line");
    assert_int_equal(answer(fixture, "again"), -ENOENT);
    /* The other order. */
    ask_for(fixture, 2, json_pack("{s:s, s:b}", "prompt", "secret: ", "password", 1));
    assert_int_equal(times_told(fixture), 1);
    assert_int_equal(answer(fixture, "early"), -ENOENT);
    note(fixture);
    json_t *events = told(fixture);
    json_t *expected = json_pack("[{s:s, s:s, s:b}, {s:s, s:s, s:b}]", "event", "input_request",
                                 "prompt", "name? ", "password", 0, "event", "input_request",
                                 "prompt", "secret: ", "password", 1);
    assert_true(json_equal(events, expected));
    json_decref(events);
    json_decref(expected);
    assert_int_equal(answer(fixture, NULL), 0);
    expect_sent(2, 2, "\x04");
    assert_int_equal(answer(fixture, NULL), -ENOENT);
}

static void answer_that_cannot_be_sent(void **state)
{
    struct fixture *fixture = *state;
    input_init(&fixture->input, INPUT_ASK, NULL);
    note(fixture);
    ask(fixture, 1);
    sent.result = -ENOTCONN;
    assert_int_equal(answer(fixture, "line"), -ENOTCONN);
    assert_int_equal(answer(fixture, "line"), -ENOENT);
}

/* The code was interrupted while it waited, and asks again: only the second question can be answered. */
static void asked_again_after_an_interrupt(void **state)
{
    struct fixture *fixture = *state;
    input_init(&fixture->input, INPUT_ASK, NULL);
    note(fixture);
    ask(fixture, 1);
    assert_int_equal(times_told(fixture), 1);
    note(fixture);
    assert_int_equal(times_told(fixture), 1);
    ask(fixture, 2);
    assert_int_equal(times_told(fixture), 2);
    /* The request first. */
    ask(fixture, 3);
    assert_int_equal(times_told(fixture), 2);
    assert_int_equal(answer(fixture, "to the second"), -ENOENT);
    note(fixture);
    assert_int_equal(times_told(fixture), 3);
    assert_int_equal(answer(fixture, "to the third"), 0);
    expect_sent(1, 3, "to the third");
    assert_int_equal(answer(fixture, "x"), -ENOENT);
}

/* Notes that come late, as much output came before them, must not take back a question that the caller knows already: he could
 * never answer it. */
static void late_notes(void **state)
{
    struct fixture *fixture = *state;
    input_init(&fixture->input, INPUT_ASK, NULL);
    ask(fixture, 1); /* interrupted */
    ask(fixture, 2);
    note(fixture);
    assert_int_equal(times_told(fixture), 1);
    note(fixture);
    assert_int_equal(answer(fixture, "to the second"), 0);
    expect_sent(1, 2, "to the second");
}

/* Interrupted between the note and the request, which never comes. */
static void note_without_request(void **state)
{
    struct fixture *fixture = *state;
    input_init(&fixture->input, INPUT_ASK, NULL);
    note(fixture);
    ask(fixture, 2); /* before its note */
    assert_int_equal(times_told(fixture), 1);
    note(fixture);
    assert_int_equal(answer(fixture, "line"), 0);
    expect_sent(1, 2, "line");
}

/* Between the second note and its request an answer can only be for the first, which nobody waits for any more. */
static void answer_between_note_and_request(void **state)
{
    struct fixture *fixture = *state;
    input_init(&fixture->input, INPUT_ASK, NULL);
    note(fixture);
    ask(fixture, 1);
    note(fixture);
    assert_int_equal(answer(fixture, "to the first"), 0);
    ask(fixture, 2);
    assert_int_equal(times_told(fixture), 2);
    assert_int_equal(answer(fixture, "to the second"), 0);
    expect_sent(2, 2, "to the second");
}

/* What the code asked first is not answered with what was given for the second time, nor the other way round. */
static void given_after_an_interrupt(void **state)
{
    static const char *const lines[] = {"first", "second"};
    struct fixture *fixture = *state;
    give(fixture, lines, 2);
    ask(fixture, 1); /* its note is lost, or late */
    ask(fixture, 2);
    note(fixture);
    expect_sent(1, 2, "first");
    note(fixture);
    assert_int_equal(sent.count, 1);
    ask(fixture, 3);
    expect_sent(2, 3, "second");
}

/* Nobody reads: it waits, until its time is over. */
static void nobody_to_ask(void **state)
{
    struct fixture *fixture = *state;
    input_init(&fixture->input, INPUT_ASK, NULL);
    json_t *header = json_pack("{s:i}", "number", 1);
    struct message message = {.header = header};
    input_note(&fixture->input, kernel, NULL);
    input_request(&fixture->input, &message, kernel, NULL);
    assert_int_equal(answer(fixture, "x"), -ENOENT);
    json_decref(header);
}

/* Long prompts are cut between characters; odd ones are none. */
static void prompts(void **state)
{
    struct fixture *fixture = *state;
    char text[MAX_PROMPT_BYTES + 16];
    input_init(&fixture->input, INPUT_ASK, NULL);
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', sizeof text);
        memcpy(text + MAX_PROMPT_BYTES - shift, "\xf0\x9f\x98\x80", 4);
        note(fixture);
        ask_for(fixture, 1, json_pack("{s:s#}", "prompt", text, (int)sizeof text));
    }
    note(fixture);
    ask_for(fixture, 1, json_pack("{s:s#}", "prompt", text, MAX_PROMPT_BYTES - 3));
    static const char *const odd[] = {"{}", "{\"prompt\":5,\"password\":1}", "{\"prompt\":null}"};
    for (size_t i = 0; i < ARRAY_LENGTH(odd); i++) {
        note(fixture);
        ask_for(fixture, 1, json_loads(odd[i], 0, NULL));
    }
    note(fixture);
    ask_for(fixture, 1, NULL); /* its content could not be read */
    json_t *events = told(fixture);
    assert_int_equal(json_array_size(events), 9);
    for (size_t i = 0; i < 9; i++) {
        static const size_t lengths[] = {MAX_PROMPT_BYTES, MAX_PROMPT_BYTES - 1,
                                         MAX_PROMPT_BYTES - 2, MAX_PROMPT_BYTES - 3,
                                         MAX_PROMPT_BYTES - 3};
        const json_t *event = json_array_get(events, i), *prompt = json_object_get(event, "prompt");
        assert_true(json_is_string(prompt));
        assert_int_equal(json_string_length(prompt), i < ARRAY_LENGTH(lengths) ? lengths[i] : 0);
        assert_int_equal(strspn(json_string_value(prompt), "x"), json_string_length(prompt));
        assert_true(json_is_false(json_object_get(event, "password")));
    }
    json_decref(events);
}

static void freed_while_it_waits(void **state)
{
    struct fixture *fixture = *state;
    struct input nothing = {0};
    input_free(&nothing);
    input_init(&fixture->input, INPUT_ASK, NULL);
    ask(fixture, 1);
    input_free(&fixture->input);
    assert_int_equal(answer(fixture, "x"), -ENOENT);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names),
        TEST(nothing_is_asked_without_input),
        TEST(given_lines),
        TEST(no_lines_are_the_end),
        TEST(given_to_a_kernel_that_is_gone),
        TEST(asking_the_caller),
        TEST(answer_that_cannot_be_sent),
        TEST(asked_again_after_an_interrupt),
        TEST(late_notes),
        TEST(note_without_request),
        TEST(answer_between_note_and_request),
        TEST(given_after_an_interrupt),
        TEST(nobody_to_ask),
        TEST(prompts),
        TEST(freed_while_it_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
