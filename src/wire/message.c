#include "wire/message.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/quoted.h"
#include "base/text.h"
#include "husk/limits.h"

#define DELIMITER "<IDS|MSG>"

enum {
    MAX_PREFIXES = 4, /* what routers and publishers put in front */
    PARTS_AFTER_DELIMITER = 1 + SIGNED_PARTS,
};

enum signed_part {
    PART_HEADER,
    PART_PARENT,
    PART_METADATA,
    PART_CONTENT,
};

/* --- taking in ----------------------------------------------------------------------------- */

/* jansson recurses for each level and takes some forty bytes for each value, be it a single digit:
 * neither may be up to the sender. Brackets inside strings do not count. */
static bool json_is_modest(struct part text)
{
    size_t depth = 0, values = 1;
    bool in_string = false;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.data[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            values++;
            if (++depth > MAX_JSON_DEPTH)
                return false;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        } else if (c == ',' && ++values > MAX_JSON_VALUES) {
            return false;
        }
    }
    return true;
}

/* An object, or NULL. */
static json_t *parse_object(struct part text, size_t flags)
{
    if (!json_is_modest(text))
        return NULL;
    json_error_t error;
    json_t *value = json_loadb(text.data, text.length, flags, &error);
    /* Python's integers have no limit, jansson's have 64 bits: rather rounded than lost. */
    if (!value && json_error_code(&error) == json_error_numeric_overflow)
        value = json_loadb(text.data, text.length, flags | JSON_DECODE_INT_AS_REAL, &error);
    if (value && !json_is_object(value)) {
        json_decref(value);
        value = NULL;
    }
    return value;
}

/* Most of what kernels send is text, always in this form, and jansson takes 16 ms for a megabyte of
 * it. NULL: it has another form, or is not right. */
static json_t *parse_stream(struct part text)
{
    static const struct {
        const char *front, *name;
    } forms[] = {
        {"{\"name\": \"stdout\", \"text\": \"", "stdout"},
        {"{\"name\": \"stderr\", \"text\": \"", "stderr"},
    };
    static const char back[] = "\"}";
    size_t front = strlen(forms[0].front), around = front + strlen(back);
    if (text.length < around || memcmp(text.data + text.length - strlen(back), back, strlen(back)))
        return NULL;
    for (size_t i = 0; i < ARRAY_LENGTH(forms); i++) {
        if (memcmp(text.data, forms[i].front, front) != 0)
            continue;
        _cleanup_free_ char *decoded = malloc(text.length);
        ssize_t n =
            decoded ? quoted_decode(text.data + front, text.length - around, decoded) : -ENOMEM;
        json_t *value = n >= 0 && utf8_valid(decoded, (size_t)n)
                            ? json_stringn_nocheck(decoded, (size_t)n)
                            : NULL;
        return value ? json_pack("{s:s, s:o}", "name", forms[i].name, "text", value) : NULL;
    }
    return NULL;
}

/* Index of the delimiter, or -EBADMSG. */
static int find_delimiter(const struct part *parts, size_t count)
{
    for (size_t i = 0; i < count && i <= MAX_PREFIXES; i++) {
        if (parts[i].length == strlen(DELIMITER) &&
            memcmp(parts[i].data, DELIMITER, strlen(DELIMITER)) == 0)
            return (int)i;
    }
    return -EBADMSG;
}

static int check_sizes(const struct part *parts, size_t count, struct failure *why)
{
    if (count > MAX_WIRE_FRAMES)
        return fail_plain(why, EMSGSIZE, "message of %zu parts", count);
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].length > MAX_WIRE_FRAME_BYTES || total > MAX_WIRE_MESSAGE_BYTES)
            return fail_plain(why, EMSGSIZE, "part %zu of a message is too large", i);
        total += parts[i].length;
    }
    if (total > MAX_WIRE_MESSAGE_BYTES)
        return fail_plain(why, EMSGSIZE, "message of %zu bytes", total);
    return 0;
}

int message_parse(const struct part *parts, size_t count, struct signatures *signatures,
                  struct message *ret, struct failure *why)
{
    int r = check_sizes(parts, count, why);
    if (r < 0)
        return r;
    int delimiter = find_delimiter(parts, count);
    if (delimiter < 0 || count - (size_t)delimiter - 1 < PARTS_AFTER_DELIMITER)
        return fail_plain(why, EBADMSG, "not a Jupyter message");
    const struct part *body = parts + delimiter + 2;
    if (body[PART_HEADER].length > MAX_WIRE_HEADER_BYTES ||
        body[PART_PARENT].length > MAX_WIRE_HEADER_BYTES)
        return fail_plain(why, EMSGSIZE, "the header of a message is too large");
    r = signature_check(signatures, parts[delimiter + 1], body);
    if (r < 0)
        return fail_plain(why, r, r == -EALREADY ? "repeated message" : "wrong signature");

    _cleanup_message_ struct message message = {0};
    message.header = parse_object(body[PART_HEADER], 0);
    message.parent = parse_object(body[PART_PARENT], 0);
    message.type = json_string_value(json_object_get(message.header, "msg_type"));
    if (!message.parent || !message.type)
        return fail_plain(why, EBADMSG, "a header that is not as it must be");
    message.parent_id = json_string_value(json_object_get(message.parent, "msg_id"));
    if (!message.parent_id)
        message.parent_id = "";
    if (strcmp(message.type, "stream") == 0)
        message.content = parse_stream(body[PART_CONTENT]);
    if (!message.content)
        message.content = parse_object(body[PART_CONTENT], JSON_ALLOW_NUL);
    *ret = message;
    message = (struct message){0};
    return 0;
}

void message_free(struct message *message)
{
    json_decref(message->header);
    json_decref(message->parent);
    json_decref(message->content);
    *message = (struct message){0};
}

/* --- sending ------------------------------------------------------------------------------- */

static char *render_header(struct message_name name, const char *type)
{
    char date[TIMESTAMP_SIZE];
    format_timestamp_micros(date);
    return must_format("{\"msg_id\":\"%s-%llu\",\"session\":\"%s\",\"username\":\"husk\","
                       "\"date\":\"%s\",\"msg_type\":\"%s\",\"version\":\"5.3\"}",
                       name.session, (unsigned long long)name.number, name.session, date, type);
}

/* free() the text; NULL when memory is out. */
static char *render_object(const json_t *object)
{
    return object ? json_dumps(object, JSON_COMPACT) : must_copy("{}");
}

int message_build(const struct signatures *signatures, struct message_name name,
                  const struct message_body *body, struct message_draft *ret)
{
    *ret = (struct message_draft){.texts = {
                                      [PART_HEADER] = render_header(name, body->type),
                                      [PART_PARENT] = render_object(body->parent),
                                      [PART_METADATA] = render_object(body->metadata),
                                      [PART_CONTENT] = render_object(body->content),
                                  }};
    struct part *signed_parts = ret->parts + 2;
    for (size_t i = 0; i < SIGNED_PARTS; i++) {
        if (!ret->texts[i]) {
            message_draft_free(ret);
            return -ENOMEM;
        }
        signed_parts[i] = (struct part){ret->texts[i], strlen(ret->texts[i])};
    }
    signature_make(signatures, signed_parts, ret->signature);
    ret->parts[0] = PART_LITERAL(DELIMITER);
    ret->parts[1] = (struct part){ret->signature, SIGNATURE_TEXT_SIZE - 1};
    return 0;
}

void message_draft_free(struct message_draft *draft)
{
    for (size_t i = 0; i < SIGNED_PARTS; i++)
        free(draft->texts[i]);
    *draft = (struct message_draft){0};
}

uint64_t message_number(const char *message_id, const char *session)
{
    size_t length = strlen(session);
    uint64_t number;
    if (strncmp(message_id, session, length) != 0 || message_id[length] != '-' ||
        parse_u64(message_id + length + 1, 1, UINT64_MAX, &number) < 0)
        return 0;
    return number;
}
