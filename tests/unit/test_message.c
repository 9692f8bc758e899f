#include "wire/message.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "husk/limits.h"

static struct signatures keyed;

#define HEADER "{\"msg_id\":\"a\",\"msg_type\":\"stream\"}"
#define PARENT "{\"msg_id\":\"s-17\"}"

static struct part text_part(const char *text)
{
    return (struct part){text, strlen(text)};
}

/* Sign the body and parse the message, with `prefixes` parts in front. */
static int parse_body(const struct part body[SIGNED_PARTS], size_t prefixes, struct message *ret)
{
    char signature[SIGNATURE_TEXT_SIZE];
    signatures_init(&keyed, "key", 3);
    signature_make(&keyed, body, signature);
    struct part parts[MAX_WIRE_FRAMES + 8];
    size_t count = 0;
    while (count < prefixes)
        parts[count++] = text_part("topic");
    parts[count++] = text_part("<IDS|MSG>");
    parts[count++] = text_part(signature);
    memcpy(parts + count, body, SIGNED_PARTS * sizeof parts[0]);
    count += SIGNED_PARTS;
    struct failure why;
    return message_parse(parts, count, &keyed, ret, &why);
}

static int parse_texts(const char *header, const char *parent, const char *content,
                       struct message *ret)
{
    struct part body[] = {text_part(header), text_part(parent), text_part("{}"),
                          text_part(content)};
    return parse_body(body, 1, ret);
}

static void plain(void **state)
{
    (void)state;
    struct message message;
    assert_int_equal(parse_texts(HEADER, PARENT, "{\"text\":\"\\u0000x\"}", &message), 0);
    assert_string_equal(message.type, "stream");
    assert_string_equal(message.parent_id, "s-17");
    assert_int_equal(json_string_length(json_object_get(message.content, "text")), 2);
    message_free(&message);
    message_free(&message);
}

static void without_parent(void **state)
{
    (void)state;
    static const char *const parents[] = {"{}", "{\"msg_id\":7}", "{\"msg_id\":null}"};
    for (size_t i = 0; i < ARRAY_LENGTH(parents); i++) {
        struct message message;
        assert_int_equal(parse_texts(HEADER, parents[i], "{}", &message), 0);
        assert_string_equal(message.parent_id, "");
        message_free(&message);
    }
}

static void prefixes(void **state)
{
    (void)state;
    struct part body[] = {text_part(HEADER), text_part(PARENT), text_part("{}"), text_part("{}")};
    for (size_t count = 0; count < 10; count++) {
        struct message message;
        int r = parse_body(body, count, &message);
        assert_int_equal(r, count <= 4 ? 0 : -EBADMSG);
        if (r == 0)
            message_free(&message);
    }
}

static void bad_headers(void **state)
{
    (void)state;
    static const char *const headers[] = {"",
                                          "{",
                                          "[]",
                                          "null",
                                          "7",
                                          "{\"msg_type\":7}",
                                          "{}",
                                          "{\"msg_type\":\"\xff\"}",
                                          "{\"msg_type\":}"};
    struct message message;
    for (size_t i = 0; i < ARRAY_LENGTH(headers); i++) {
        assert_int_equal(parse_texts(headers[i], PARENT, "{}", &message), -EBADMSG);
        if (strncmp(headers[i], "{\"m", 3) != 0 && strcmp(headers[i], "{}") != 0)
            assert_int_equal(parse_texts(HEADER, headers[i], "{}", &message), -EBADMSG);
    }
}

/* Type and parent are known, so the execution goes on; only the content is missing. */
static void bad_content(void **state)
{
    (void)state;
    static const char *const contents[] = {
        "", "{", "[]", "7", "{\"text\":\"\xff\"}", "{\"a\":1}x", "{\"\\u0000\":1}"};
    for (size_t i = 0; i < ARRAY_LENGTH(contents); i++) {
        struct message message;
        assert_int_equal(parse_texts(HEADER, PARENT, contents[i], &message), 0);
        assert_null(message.content);
        message_free(&message);
    }
}

/* The fast way for streams must take exactly what jansson takes, and understand it as jansson does. */
static void streams(void **state)
{
    (void)state;
#define TEXT(text) "{\"name\": \"stderr\", \"text\": \"" text "\"}"
    static const char *const contents[] = {
        TEXT(""),
        TEXT("a\\n\\\"\\\\\\u0000\\u001b[1m \xc3\xa9 \xf0\x9f\x98\x80"),
        TEXT("\\u00e9 \\ud83d\\ude00"),
        TEXT("a\", \"text\": \"b"),
        TEXT("a\", \"name\": \"stdout"),
        TEXT("\\"),
        TEXT("\xff"),
        TEXT("\n"),
        TEXT("\\ud800"),
        "{\"name\": \"stdout\", \"text\": \"}",
        "{\"name\": \"stdout\", \"text\": 7}",
        "{\"name\": \"other\", \"text\": \"a\"}",
        "{\"text\": \"a\", \"name\": \"stdout\"}",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(contents); i++) {
        struct message message;
        json_auto_t *expected = json_loadb(contents[i], strlen(contents[i]), JSON_ALLOW_NUL, NULL);
        assert_int_equal(parse_texts(HEADER, PARENT, contents[i], &message), 0);
        assert_int_equal(expected != NULL, message.content != NULL);
        assert_true(!expected || json_equal(expected, message.content));
        message_free(&message);
    }
}

static char *nested(size_t depth)
{
    char *text = malloc(depth * 2 + 16);
    strcpy(text, "{\"a\":");
    memset(text + 5, '[', depth);
    memset(text + 5 + depth, ']', depth);
    strcpy(text + 5 + depth * 2, "}");
    return text;
}

static void depth(void **state)
{
    (void)state;
    static const struct {
        size_t depth;
        bool taken;
    } cases[] = {{0, false},
                 {1, true},
                 {MAX_JSON_DEPTH - 1, true},
                 {MAX_JSON_DEPTH, false},
                 {1000000, false}};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        _cleanup_free_ char *text = nested(cases[i].depth);
        struct message message;
        assert_int_equal(parse_texts(HEADER, PARENT, text, &message), 0);
        assert_int_equal(message.content != NULL, cases[i].taken);
        message_free(&message);
    }
}

/* Brackets and quotes inside strings are text. */
static void brackets_in_strings(void **state)
{
    (void)state;
    char text[1024] = "{\"a\":\"";
    memset(text + strlen(text), '[', 200);
    strcat(text, "\\\"\\\\\",\"b\":\"]\\\\\"}");
    struct message message;
    assert_int_equal(parse_texts(HEADER, PARENT, text, &message), 0);
    assert_non_null(message.content);
    assert_int_equal(json_object_size(message.content), 2);
    message_free(&message);
}

static void number_of_values(void **state)
{
    (void)state;
    for (int above = 0; above < 2; above++) {
        size_t count = MAX_JSON_VALUES - 8 + (size_t)above * 16;
        _cleanup_free_ char *text = malloc(count * 2 + 16);
        strcpy(text, "{\"a\":[");
        size_t length = strlen(text);
        for (size_t i = 0; i < count; i++) {
            text[length++] = '0';
            text[length++] = ',';
        }
        strcpy(text + length - 1, "]}");
        struct message message;
        assert_int_equal(parse_texts(HEADER, PARENT, text, &message), 0);
        assert_int_equal(message.content == NULL, above);
        message_free(&message);
    }
}

static void large_numbers(void **state)
{
    (void)state;
    struct message message;
    assert_int_equal(parse_texts(HEADER, PARENT, "{\"a\":1180591620717411303424}", &message), 0);
    assert_true(json_is_real(json_object_get(message.content, "a")));
    message_free(&message);
    assert_int_equal(parse_texts(HEADER, PARENT, "{\"a\":1e999}", &message), 0);
    assert_null(message.content);
    message_free(&message);
}

static void sizes(void **state)
{
    (void)state;
    struct message message;
    struct failure why;
    struct part parts[MAX_WIRE_FRAMES + 1];
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++)
        parts[i] = text_part("<IDS|MSG>");
    assert_int_equal(message_parse(parts, ARRAY_LENGTH(parts), &keyed, &message, &why), -EMSGSIZE);
    assert_int_equal(message_parse(parts, 0, &keyed, &message, &why), -EBADMSG);
    for (size_t count = 1; count < 6; count++)
        assert_int_equal(message_parse(parts, count, &keyed, &message, &why), -EBADMSG);

    /* Never touched: the sizes alone decide. */
    parts[3].length = MAX_WIRE_FRAME_BYTES + 1;
    assert_int_equal(message_parse(parts, 6, &keyed, &message, &why), -EMSGSIZE);
    parts[3].length = parts[4].length = MAX_WIRE_FRAME_BYTES;
    assert_int_equal(message_parse(parts, 6, &keyed, &message, &why), -EMSGSIZE);
    parts[3].length = SIZE_MAX;
    assert_int_equal(message_parse(parts, 6, &keyed, &message, &why), -EMSGSIZE);
    parts[4].length = 9;
    parts[3].length = MAX_WIRE_HEADER_BYTES + 1;
    assert_int_equal(message_parse(parts, 6, &keyed, &message, &why), -EMSGSIZE);
}

static void forged_and_repeated(void **state)
{
    (void)state;
    struct part body[] = {text_part(HEADER), text_part(PARENT), text_part("{}"), text_part("{}")};
    char signature[SIGNATURE_TEXT_SIZE];
    signatures_init(&keyed, "key", 3);
    signature_make(&keyed, body, signature);
    struct part parts[] = {
        text_part("<IDS|MSG>"), text_part(signature), body[0], body[1], body[2], body[3]};
    struct message message;
    struct failure why;
    parts[5] = text_part("{ }");
    assert_int_equal(message_parse(parts, 6, &keyed, &message, &why), -EBADMSG);
    assert_string_equal(why.text, "wrong signature");
    parts[5] = body[3];
    assert_int_equal(message_parse(parts, 6, &keyed, &message, &why), 0);
    message_free(&message);
    assert_int_equal(message_parse(parts, 6, &keyed, &message, &why), -EALREADY);
}

static void request_can_be_parsed(void **state)
{
    (void)state;
    signatures_init(&keyed, "key", 3);
    json_t *content = json_pack("{s:s%}", "code", "a\0\n\xc3\xa9", (size_t)5);
    struct message_draft request;
    struct message_name name = {.session = "abc", .number = 42};
    struct message_body body = {.type = "execute_request", .content = content};
    assert_int_equal(message_build(&keyed, name, &body, &request), 0);
    struct message message;
    struct failure why;
    assert_int_equal(message_parse(request.parts, MESSAGE_PARTS, &keyed, &message, &why), 0);
    assert_string_equal(message.type, "execute_request");
    assert_string_equal(message.parent_id, "");
    assert_true(json_equal(message.content, content));
    const char *id = json_string_value(json_object_get(message.header, "msg_id"));
    assert_int_equal(message_number(id, "abc"), 42);
    assert_string_equal(json_string_value(json_object_get(message.header, "session")), "abc");
    message_free(&message);
    message_draft_free(&request);
    message_draft_free(&request);
    json_decref(content);
}

static void reply_names_what_it_answers(void **state)
{
    (void)state;
    signatures_init(&keyed, "key", 3);
    json_t *content = json_pack("{s:s}", "value", "typed");
    json_t *parent =
        json_pack("{s:s, s:s}", "msg_id", "of the kernel", "msg_type", "input_request");
    json_t *metadata = json_pack("{s:{s:b}}", "husk", "colors", 1);
    struct message_name name = {.session = "abc", .number = 43};
    struct message_body body = {
        .type = "input_reply", .content = content, .metadata = metadata, .parent = parent};
    struct message_draft reply;
    assert_int_equal(message_build(&keyed, name, &body, &reply), 0);
    assert_string_equal(reply.parts[4].data, "{\"husk\":{\"colors\":true}}");
    struct message message;
    struct failure why;
    assert_int_equal(message_parse(reply.parts, MESSAGE_PARTS, &keyed, &message, &why), 0);
    assert_string_equal(message.parent_id, "of the kernel");
    assert_true(json_equal(message.parent, parent));
    message_free(&message);
    message_draft_free(&reply);
    json_decref(content);
    json_decref(parent);
    json_decref(metadata);
}

static void numbers(void **state)
{
    (void)state;
    static const struct {
        const char *id;
        uint64_t number;
    } cases[] = {
        {"abc-1", 1},
        {"abc-18446744073709551615", UINT64_MAX},
        {"abc-18446744073709551616", 0},
        {"abc-0", 0},
        {"abc-", 0},
        {"abc--1", 0},
        {"abc-1x", 0},
        {"abc- 1", 0},
        {"abc", 0},
        {"", 0},
        {"abd-1", 0},
        {"ab", 0},
        {"abc1-1", 0},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_int_equal(message_number(cases[i].id, "abc"), cases[i].number);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain),
        cmocka_unit_test(without_parent),
        cmocka_unit_test(prefixes),
        cmocka_unit_test(bad_headers),
        cmocka_unit_test(bad_content),
        cmocka_unit_test(streams),
        cmocka_unit_test(depth),
        cmocka_unit_test(brackets_in_strings),
        cmocka_unit_test(number_of_values),
        cmocka_unit_test(large_numbers),
        cmocka_unit_test(sizes),
        cmocka_unit_test(forged_and_repeated),
        cmocka_unit_test(request_can_be_parsed),
        cmocka_unit_test(reply_names_what_it_answers),
        cmocka_unit_test(numbers),
    };
    return sodium_init() < 0 || cmocka_run_group_tests(tests, NULL, NULL);
}
