#include "http/raw_form.h"

#include <microhttpd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "husk/limits.h"

/* From 1.0 on it refuses what is odd. Asked when it runs: the two have the same name for the linker. */
static bool library_is_disciplined(void)
{
    return atoi(MHD_get_version()) >= 1;
}

bool raw_form_trusts_chunks(void)
{
    return library_is_disciplined();
}

static const char apart_fault[] =
    "its lines are folded, do not end with CR LF, have NULs in them, or no name";

struct walk {
    bool in_place;  /* the library leaves strings where they came in */
    uintptr_t next; /* where the next name must be */
    const char *fault;
};

static bool is_token(const char *text, size_t length)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789"
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return length > 0 && strlen(text) == length && strspn(text, token) == length;
}

static bool has_controls(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f)
            return true;
    }
    return false;
}

/* `name: value\r\n`, with any number of blanks before the value. */
static enum MHD_Result look_at(void *user, enum MHD_ValueKind kind _unused_, const char *name,
                               size_t name_length, const char *value, size_t value_length)
{
    struct walk *walk = user;
    if (!is_token(name, name_length)) {
        walk->fault = "the name of a header is not well-formed";
        return MHD_NO;
    }
    if (!value || has_controls(value, value_length)) {
        walk->fault = "there are control characters in a header";
        return MHD_NO;
    }
    uintptr_t name_end = (uintptr_t)name + name_length;
    bool apart = (uintptr_t)name != walk->next || (uintptr_t)value <= name_end ||
                 (uintptr_t)value - name_end > MAX_HEADER_BYTES;
    walk->next = (uintptr_t)value + value_length + strlen("\r\n");
    if (walk->in_place && apart) {
        walk->fault = apart_fault;
        return MHD_NO;
    }
    return MHD_YES;
}

struct raw_line raw_line_begin(const char *target)
{
    struct raw_line line = {.target = target, .target_length = strlen(target), .plain = true};
    for (const char *c = target; *c; c++)
        line.plain = line.plain && (unsigned char)*c > ' ' && *c != 0x7f;
    return line;
}

/* `GET target HTTP/1.1`: one blank each. */
static bool is_adjacent(const struct raw_line *line)
{
    uintptr_t method_end = (uintptr_t)line->method + strlen(line->method);
    return (uintptr_t)line->target == method_end + 1 &&
           (uintptr_t)line->version == (uintptr_t)line->target + line->target_length + 1;
}

const char *raw_form_fault(struct MHD_Connection *connection, const struct raw_line *line)
{
    struct walk walk = {.in_place = !library_is_disciplined(),
                        .next = (uintptr_t)line->version + strlen("HTTP/1.1\r\n")};
    if (!line->plain || (walk.in_place && !is_adjacent(line)))
        return "its first line has blanks or control characters where none belong";
    (void)MHD_get_connection_values_n(connection, MHD_HEADER_KIND, look_at, &walk);
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    uintptr_t end = (uintptr_t)line->method + (size ? size->header_size : 0);
    if (!walk.fault && walk.in_place && end != walk.next + strlen("\r\n"))
        walk.fault = apart_fault;
    return walk.fault;
}
