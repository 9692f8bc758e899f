/* The parts of `husk mcp` that know nothing of the network: command/mcp_lines.h, mcp_events.h, mcp_message.h. */
#include "command/mcp_events.h"
#include "command/mcp_lines.h"
#include "command/mcp_message.h"

#include <fcntl.h>

#include "base/fdio.h"
#include "base/memory.h"
#include "husk/limits.h"
#include "unit.h"

/* --- lines: each in a child, whose standard input and output are pipes ---------------------------- */

struct pipes {
    int to, from; /* what it reads, what it has written */
};

static struct pipes begin(struct lines *lines)
{
    int in[2], out[2];
    child_check(pipe(in) == 0 && pipe(out) == 0);
    child_check(dup2(in[0], STDIN_FILENO) >= 0 && dup2(out[1], STDOUT_FILENO) >= 0);
    close_fd(in[0]);
    close_fd(out[1]);
    child_check(set_nonblocking(out[0], true) == 0);
    lines_open(lines);
    return (struct pipes){in[1], out[0]};
}

static void send(const struct pipes *pipes, const char *text)
{
    child_check(write_all(pipes->to, text, strlen(text)) == 0);
}

static void expect_line(struct lines *lines, const char *wanted)
{
    const char *text;
    size_t length;
    enum line_kind kind = lines_next(lines, &text, &length);
    child_check(wanted ? kind == LINE_GOOD : kind == LINE_NONE);
    child_check(!wanted || (length == strlen(wanted) && !memcmp(text, wanted, length)));
}

static void read_lines(void *user _unused_)
{
    struct lines lines;
    struct pipes pipes = begin(&lines);
    lines_read(&lines); /* nothing is there, and it does not wait */
    child_check(!lines.ended);
    expect_line(&lines, NULL);
    send(&pipes, "\n\r\none\ntwo\r\nthr");
    lines_read(&lines);
    expect_line(&lines, "one");
    expect_line(&lines, "two");
    expect_line(&lines, NULL);
    send(&pipes, "ee\n");
    lines_read(&lines);
    expect_line(&lines, "three");
    send(&pipes, "the rest");
    close_fd(pipes.to);
    lines_read(&lines);
    expect_line(&lines, NULL);
    lines_read(&lines);
    child_check(lines.ended);
    expect_line(&lines, "the rest");
    expect_line(&lines, NULL);
    lines_close(&lines);
    child_check(!(fcntl(STDIN_FILENO, F_GETFL) & O_NONBLOCK));
}

/* A line that is too long is told once, costs no memory, and what follows it is read. */
static void skip_a_long_line(void *user _unused_)
{
    struct lines lines;
    struct pipes pipes = begin(&lines);
    char piece[32 * KIB + 1];
    const char *text;
    size_t length, told = 0;
    memset(piece, 'x', sizeof piece - 1);
    piece[sizeof piece - 1] = '\0';
    for (size_t sent = 0; sent < (size_t)MAX_BRIDGE_LINE_BYTES * 2; sent += sizeof piece - 1) {
        send(&pipes, piece);
        lines_read(&lines);
        told += lines_next(&lines, &text, &length) == LINE_TOO_LONG;
        child_check(lines.input.length <= MAX_BRIDGE_LINE_BYTES + 64 * KIB);
    }
    child_check(told == 1);
    send(&pipes, "\nnext\n");
    lines_read(&lines);
    expect_line(&lines, "next");
    lines_close(&lines);
}

static void write_lines(void *user _unused_)
{
    struct lines lines;
    struct pipes pipes = begin(&lines);
    char got[256] = "", large[128 * KIB];
    lines_write(&lines, "{\r\n}", 4);
    lines_write(&lines, "[]", 2);
    child_check(lines_waiting(&lines) == 0);
    child_check(read_some(pipes.from, got, sizeof got) == 8 && !strcmp(got, "{  }\n[]\n"));
    /* More than a pipe takes: the rest waits. */
    memset(large, 'y', sizeof large);
    lines_write(&lines, large, sizeof large);
    child_check(lines_waiting(&lines) > 0 && !lines.broken);
    size_t taken = 0;
    for (ssize_t n; taken < sizeof large + 1; taken += (size_t)n) {
        n = read_some(pipes.from, large, sizeof large);
        child_check(n > 0);
        lines_flush(&lines);
    }
    child_check(taken == sizeof large + 1 && lines_waiting(&lines) == 0);
    /* Nobody reads any more. */
    (void)signal(SIGPIPE, SIG_IGN);
    close_fd(pipes.from);
    lines_write(&lines, "x", 1);
    child_check(lines.broken && lines_waiting(&lines) == 0);
    lines_close(&lines);
}

static void test_lines(void **state _unused_)
{
    assert_int_equal(in_child(read_lines, NULL), 0);
    assert_int_equal(in_child(skip_a_long_line, NULL), 0);
    assert_int_equal(in_child(write_lines, NULL), 0);
}

/* --- events ------------------------------------------------------------------------------------- */

static void collect(void *user, const char *data, size_t length)
{
    struct buffer *all = user;
    (void)buffer_printf(all, "<%.*s>", (int)length, data);
}

/* However they are cut into pieces. */
static void test_events(void **state _unused_)
{
    static const struct {
        const char *bytes, *wanted;
    } cases[] = {
        {"data: one\n\ndata:two\n\n", "<one><two>"},
        {"data: one\r\n\r\ndata: two\r\r", "<one><two>"},
        {": hello\n\nevent: x\nid: 7\n\n", ""},
        {"data: a\ndata: b\ndata:\n\n", "<a\nb\n>"},
        {"data:  two blanks\n\n", "< two blanks>"},
        {"data\n\ndatum: x\n\n data: x\n\n", ""},
        {"data:\n\n", "<>"},
        {"data: no end", ""},
        {"data: no blank line\n", ""},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        size_t length = strlen(cases[i].bytes);
        for (size_t step = 1; step <= length; step++) {
            _cleanup_buffer_ struct buffer all = {0};
            struct events events;
            events_init(&events, 1024, collect, &all);
            for (size_t at = 0; at < length; at += step) {
                size_t piece = length - at < step ? length - at : step;
                assert_int_equal(events_feed(&events, cases[i].bytes + at, piece), 0);
            }
            events_free(&events);
            assert_string_equal(all.length ? buffer_text(&all) : "", cases[i].wanted);
        }
    }
}

static void test_events_are_bounded(void **state _unused_)
{
    static const char *const endless[] = {"x", "data: x\n", "data: x"};
    for (size_t i = 0; i < ARRAY_LENGTH(endless); i++) {
        _cleanup_buffer_ struct buffer all = {0};
        struct events events;
        int r = 0;
        events_init(&events, 64, collect, &all);
        for (int j = 0; r == 0 && j < 1000; j++)
            r = events_feed(&events, endless[i], strlen(endless[i]));
        assert_int_equal(r, -ENOSPC);
        assert_int_equal(all.length, 0);
        events_free(&events);
    }
}

/* --- messages ----------------------------------------------------------------------------------- */

#define META "\"params\":{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}"

static void test_kinds(void **state _unused_)
{
    static const struct {
        const char *text;
        enum message_kind kind;
        enum message_error code;
        bool modern;
    } cases[] = {
        {"{\"id\":1,\"method\":\"ping\"}", MESSAGE_REQUEST},
        {"{\"id\":\"a\",\"method\":\"ping\"}", MESSAGE_REQUEST},
        {"{\"method\":\"x\"," META "}}", MESSAGE_NOTIFICATION, .modern = true},
        {"{\"method\":\"x\",\"params\":[1]}", MESSAGE_NOTIFICATION},
        {"{\"id\":1,\"result\":{}}", MESSAGE_RESPONSE},
        {"{\"id\":1,\"error\":{}}", MESSAGE_RESPONSE},
        {"[]", MESSAGE_BATCH},
        {"{\"id\":1.5,\"method\":\"ping\"}", MESSAGE_INVALID, ERROR_INVALID_REQUEST},
        {"{\"id\":null,\"method\":\"ping\"}", MESSAGE_INVALID, ERROR_INVALID_REQUEST},
        {"{\"id\":{},\"method\":\"ping\"}", MESSAGE_INVALID, ERROR_INVALID_REQUEST},
        {"{\"id\":1,\"method\":7}", MESSAGE_INVALID, ERROR_INVALID_REQUEST},
        {"{}", MESSAGE_INVALID, ERROR_INVALID_REQUEST},
        {"7", MESSAGE_INVALID, ERROR_PARSE},
        {"\"\xff\"", MESSAGE_INVALID, ERROR_PARSE},
        {"", MESSAGE_INVALID, ERROR_PARSE},
        {"{\"id\":1,\"method\":\"ping\"} {}", MESSAGE_INVALID, ERROR_PARSE},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct message message;
        message_read(&message, cases[i].text, strlen(cases[i].text));
        assert_int_equal(message.kind, cases[i].kind);
        assert_int_equal(message.code, cases[i].code);
        assert_int_equal(message.modern, cases[i].modern);
        assert_true((message.fault != NULL) == (message.kind == MESSAGE_INVALID));
        message_free(&message);
    }
}

static void test_bounds(void **state _unused_)
{
    _cleanup_free_ char *deep = must_alloc(2 * MAX_JSON_DEPTH + 3);
    memset(deep, '[', MAX_JSON_DEPTH);
    memset(deep + MAX_JSON_DEPTH, ']', MAX_JSON_DEPTH);
    json_auto_t *just = message_parse(deep, 2 * MAX_JSON_DEPTH);
    assert_non_null(just);
    memset(deep, '[', MAX_JSON_DEPTH + 1);
    memset(deep + MAX_JSON_DEPTH + 1, ']', MAX_JSON_DEPTH + 1);
    assert_null(message_parse(deep, 2 * MAX_JSON_DEPTH + 2));
    /* Brackets in a text are none. */
    memset(deep, '[', 2 * MAX_JSON_DEPTH);
    deep[0] = deep[2 * MAX_JSON_DEPTH - 1] = '"';
    assert_null(message_parse(deep, 2 * MAX_JSON_DEPTH)); /* no list and no object */
    char id[MAX_MCP_ID_BYTES + 64];
    struct message message;
    (void)snprintf(id, sizeof id, "{\"method\":\"x\",\"id\":\"%0*d\"}", MAX_MCP_ID_BYTES + 1, 0);
    message_read(&message, id, strlen(id));
    assert_int_equal(message.kind, MESSAGE_INVALID);
    message_free(&message);
}

static void test_headers(void **state _unused_)
{
    static const struct {
        const char *name, *header;
    } cases[] = {
        {"plain_name", "Mcp-Name: plain_name"},
        {"two words", "Mcp-Name: two words"},
        {" edge", "Mcp-Name: =?base64?IGVkZ2U=?="},
        {"=?base64?eA==?=", "Mcp-Name: =?base64?PT9iYXNlNjQ/ZUE9PT89?="},
        {"a\\r\\nX-Evil: 1", "Mcp-Name: =?base64?YQ0KWC1FdmlsOiAx?="},
        {"a\\u0000b", "Mcp-Name: =?base64?YQBi?="},
        {"\xe6\x95\xb0", "Mcp-Name: =?base64?5pWw?="},
        {"\x7f", "Mcp-Name: =?base64?fw==?="},
        {"", "Mcp-Name: =?base64?"
             "?="},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct message message;
        _cleanup_free_ char *text = must_format(
            "{\"id\":1,\"method\":\"tools/call\"," META ",\"name\":\"%s\"}}", cases[i].name);
        message_read(&message, text, strlen(text));
        assert_int_equal(message.kind, MESSAGE_REQUEST);
        _cleanup_free_ char *version = message_header(&message, HEADER_VERSION);
        _cleanup_free_ char *method = message_header(&message, HEADER_METHOD);
        _cleanup_free_ char *name = message_header(&message, HEADER_NAME);
        assert_string_equal(version, "MCP-Protocol-Version: 2026-07-28");
        assert_string_equal(method, "Mcp-Method: tools/call");
        assert_string_equal(name, cases[i].header);
        message_free(&message);
    }
    struct message other;
    message_read(&other, "{\"method\":\"x\"}", 14);
    assert_null(message_header(&other, HEADER_VERSION));
    assert_null(message_header(&other, HEADER_NAME));
    message_free(&other);
}

static void test_answers(void **state _unused_)
{
    json_auto_t *id = json_integer(7);
    _cleanup_free_ char *error = message_error(id, ERROR_INTERNAL, "no\n");
    assert_string_equal(error,
                        "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32603,\"message\":"
                        "\"no\\n\"}}");
    _cleanup_free_ char *nobody = message_error(NULL, ERROR_PARSE, "no");
    assert_string_equal(nobody, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,"
                                "\"message\":\"no\"}}");
    _cleanup_free_ char *result =
        message_result(id, message_tool_result(true, false, "well", json_pack("{s:i}", "a", 1)));
    assert_string_equal(result,
                        "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"content\":[{\"type\":\"text\","
                        "\"text\":\"well\"}],\"structuredContent\":{\"a\":1},\"isError\":false,"
                        "\"resultType\":\"complete\"}}");
    _cleanup_free_ char *progress = message_progress(id, 1, 2, "half");
    assert_non_null(strstr(progress, "\"progressToken\":7,\"progress\":1.0,\"total\":2.0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_events_are_bounded),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
