#include "http/multipart.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/attributes.h"
#include "base/memory.h"
#include "base/text.h"
#include "huskd/uri.h"

enum multipart_state {
    IN_CONTENT,  /* of a part, or in front of the first one */
    AT_BOUNDARY, /* behind one: the end of its line, or of everything */
    IN_HEADERS,
    AT_END, /* what comes now is nothing */
};

struct multipart {
    struct multipart_events events;
    enum multipart_state state;
    char delimiter[MULTIPART_BOUNDARY_SIZE + 4]; /* "\r\n--" and the boundary */
    size_t delimiter_length;
    size_t matched;    /* so much of the delimiter has been seen */
    bool before_first; /* content is thrown away */
    bool stopped;
    char last; /* AT_BOUNDARY: the character before */
    char headers[MAX_PART_HEADER_BYTES + 1];
    size_t header_bytes;
    struct multipart_part part;
};

/* --- Content-Type, Content-Disposition ---------------------------------------------------------- */

/* The value of a parameter, which ends where it is returned. `size` 0: nobody wants it. A backslash escapes quotes and itself; others mean a path. */
static const char *read_value(const char *at, char *out, size_t size, bool *fits)
{
    bool quoted = *at == '"';
    size_t used = 0;
    *fits = true;
    for (at += quoted; *at && (quoted ? *at != '"' : !strchr("; \t", *at)); at++) {
        if (quoted && *at == '\\' && (at[1] == '"' || at[1] == '\\'))
            at++;
        if (used + 1 < size)
            out[used++] = *at;
        else
            *fits = false;
    }
    if (size > 0)
        out[used] = '\0';
    return at + (quoted && *at == '"');
}

/* 1: the parameter `key` is there, 0: it is not, -EBADMSG: it does not fit. */
static int find_parameter(const char *header, const char *key, char *out, size_t size)
{
    const char *at = header + strcspn(header, ";");
    while (*at == ';') {
        at += strspn(at, "; \t");
        size_t length = strcspn(at, "=; \t");
        bool wanted = length == strlen(key) && !strncasecmp(at, key, length), fits;
        at += length;
        at += strspn(at, " \t");
        if (*at == '=') {
            at++;
            at += strspn(at, " \t");
            at = read_value(at, out, wanted ? size : 0, &fits);
            if (wanted)
                return fits ? 1 : -EBADMSG;
        }
        at += strcspn(at, ";");
    }
    return 0;
}

int multipart_boundary(const char *content_type, char boundary[MULTIPART_BOUNDARY_SIZE])
{
    static const char type[] = "multipart/form-data";
    if (!content_type || strncasecmp(content_type, type, strlen(type)) != 0 ||
        !strchr("; \t", content_type[strlen(type)]))
        return -ENOENT;
    int r = find_parameter(content_type, "boundary", boundary, MULTIPART_BOUNDARY_SIZE);
    return r == 1 && *boundary && !strpbrk(boundary, "\r\n") ? 0 : -EINVAL;
}

/* Browsers, and libraries that do as they do, write these three so, and leave a percent sign as it is. */
static void decode_three(char *text)
{
    static const struct {
        const char *code;
        char meaning;
    } codes[] = {{"%22", '"'}, {"%0D", '\r'}, {"%0A", '\n'}};
    for (size_t i = 0; i < ARRAY_LENGTH(codes); i++) {
        for (char *at = text; (at = strcasestr(at, codes[i].code));) {
            *at++ = codes[i].meaning;
            memmove(at, at + 2, strlen(at + 2) + 1);
        }
    }
}

/* RFC 8187: UTF-8'language'name, the name percent-encoded. */
static int decode_extended(const char *value, char *out, size_t size)
{
    static const char charset[] = "utf-8'";
    const char *name = strncasecmp(value, charset, strlen(charset)) == 0
                           ? strchr(value + strlen(charset), '\'')
                           : NULL;
    return name && uri_decode(name + 1, strlen(name + 1), out, size) >= 0 ? 0 : -EBADMSG;
}

static int read_disposition(const char *header, struct multipart_part *part)
{
    char extended[3 * MULTIPART_NAME_SIZE + 64];
    if (find_parameter(header, "name", part->name, sizeof part->name) < 0)
        return -EBADMSG;
    decode_three(part->name);
    int plain = find_parameter(header, "filename", part->file_name, sizeof part->file_name);
    int other = find_parameter(header, "filename*", extended, sizeof extended);
    part->is_file = plain != 0 || other != 0;
    if (other == 1 && decode_extended(extended, part->file_name, sizeof part->file_name) == 0)
        return 0;
    if (plain < 0 || (other != 0 && plain == 0))
        return -EBADMSG;
    decode_three(part->file_name);
    return 0;
}

static int read_headers(struct multipart *form)
{
    static const char wanted[] = "content-disposition:";
    form->part = (struct multipart_part){0};
    form->headers[form->header_bytes] = '\0';
    if (strlen(form->headers) != form->header_bytes)
        return -EBADMSG;
    char *rest = NULL;
    for (char *line = strtok_r(form->headers, "\r\n", &rest); line;
         line = strtok_r(NULL, "\r\n", &rest)) {
        if (strncasecmp(line, wanted, strlen(wanted)) == 0 &&
            read_disposition(line + strlen(wanted), &form->part) < 0)
            return -EBADMSG;
    }
    const struct multipart_part *part = &form->part;
    return utf8_valid(part->name, strlen(part->name)) &&
                   utf8_valid(part->file_name, strlen(part->file_name))
               ? 0
               : -EBADMSG;
}

/* --- the body ----------------------------------------------------------------------------------- */

static void emit(struct multipart *form, const char *data, size_t length)
{
    if (length > 0 && !form->before_first && !form->stopped)
        form->stopped = !form->events.data(data, length, form->events.user);
}

/* Up to the next boundary. A delimiter begins with its only carriage return: after a mismatch none of it can be the start of
 * another. */
static size_t feed_content(struct multipart *form, const char *data, size_t length)
{
    size_t at = 0;
    while (at < length && !form->stopped) {
        if (form->matched == 0) {
            const char *found = memchr(data + at, '\r', length - at);
            size_t plain = found ? (size_t)(found - (data + at)) : length - at;
            emit(form, data + at, plain);
            at += plain;
            form->matched = found ? 1 : 0;
            at += found ? 1 : 0;
        } else if (data[at] == form->delimiter[form->matched]) {
            at++;
            if (++form->matched < form->delimiter_length)
                continue;
            form->matched = 0;
            form->before_first = false;
            form->last = '\0';
            form->state = AT_BOUNDARY;
            break;
        } else {
            size_t matched = form->matched;
            form->matched = 0;
            emit(form, form->delimiter, matched);
        }
    }
    return at;
}

/* "--": the end. Otherwise the line ends here, but for spaces. */
static int feed_boundary(struct multipart *form, char c)
{
    char last = form->last;
    form->last = c;
    if (last == '-' && c == '-') {
        form->state = AT_END;
    } else if (last == '\r' && c == '\n') {
        form->state = IN_HEADERS;
        form->header_bytes = 0;
    } else if (last == '-' || last == '\r' || !strchr("-\r \t", c) || c == '\0') {
        return -EBADMSG;
    }
    return 0;
}

static bool headers_end(const struct multipart *form)
{
    const char *end = form->headers + form->header_bytes;
    return (form->header_bytes == 2 && !memcmp(end - 2, "\r\n", 2)) ||
           (form->header_bytes >= 4 && !memcmp(end - 4, "\r\n\r\n", 4));
}

static int feed_header(struct multipart *form, char c)
{
    if (form->header_bytes == MAX_PART_HEADER_BYTES)
        return -EBADMSG;
    form->headers[form->header_bytes++] = c;
    if (!headers_end(form))
        return 0;
    int r = read_headers(form);
    form->state = IN_CONTENT;
    /* A part without content has its boundary right here: the end of its headers is the start of that line. */
    form->matched = 0;
    if (r == 0)
        form->stopped = !form->events.part(&form->part, form->events.user);
    return r;
}

ssize_t multipart_feed(struct multipart *form, const char *data, size_t length)
{
    size_t at = 0;
    int r = 0;
    form->stopped = false;
    while (at < length && r == 0 && !form->stopped) {
        switch (form->state) {
        case IN_CONTENT:
            at += feed_content(form, data + at, length - at);
            break;
        case AT_BOUNDARY:
            r = feed_boundary(form, data[at++]);
            break;
        case IN_HEADERS:
            r = feed_header(form, data[at++]);
            break;
        case AT_END:
            at = length;
            break;
        }
    }
    return r < 0 ? r : (ssize_t)at;
}

bool multipart_complete(const struct multipart *form)
{
    return form->state == AT_END;
}

struct multipart *multipart_new(const char *boundary, const struct multipart_events *events)
{
    struct multipart *form = must_alloc(sizeof *form);
    form->events = *events;
    form->before_first = true;
    memcpy(form->delimiter, "\r\n--", 4);
    memcpy(form->delimiter + 4, boundary, strlen(boundary));
    form->delimiter_length = 4 + strlen(boundary);
    form->matched = 2; /* the first one needs no line in front */
    return form;
}

void multipart_free(struct multipart *form)
{
    free(form);
}
