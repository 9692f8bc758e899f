#include "library/complaint.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

const char *husk_error_name(enum husk_error_kind kind)
{
    static const char *const names[] = {
        [HUSK_ERROR_ARGUMENT] = "argument", [HUSK_ERROR_MEMORY] = "memory",
        [HUSK_ERROR_CONNECT] = "connect",   [HUSK_ERROR_BROKEN] = "broken",
        [HUSK_ERROR_TIMEOUT] = "timeout",   [HUSK_ERROR_CANCELLED] = "cancelled",
        [HUSK_ERROR_REFUSED] = "refused",   [HUSK_ERROR_ANSWER] = "answer",
        [HUSK_ERROR_FILE] = "file",
    };
    /* What a caller passes may be any number. */
    unsigned index = (unsigned)kind;
    return index < ARRAY_LENGTH(names) && names[index] ? names[index] : "unknown";
}

/* Copy what fits, in whole characters; what could steer a terminal becomes a space, what is not UTF-8 a question mark. */
static void copy_clean(char *out, size_t size, const char *text)
{
    size_t length = utf8_cut(text, strlen(text), size - 1);
    memcpy(out, text, length);
    out[length] = '\0';
    bool valid = utf8_valid(out, length);
    for (char *c = out; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte < 0x20 || byte == 0x7f)
            *c = ' ';
        else if (byte >= 0x80 && !valid)
            *c = '?';
        else if (byte == 0xc2 && (unsigned char)c[1] < 0xa0) /* C1 controls, two bytes each */
            *c = c[1] = ' ';
    }
}

int complain(struct husk_error *error, enum husk_error_kind kind, const char *format, ...)
{
    char text[2 * sizeof error->message];
    va_list arguments;
    if (!error)
        return -(int)kind;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    *error = (struct husk_error){.kind = kind};
    copy_clean(error->message, sizeof error->message, text);
    return -(int)kind;
}

int complain_memory(struct husk_error *error)
{
    return complain(error, HUSK_ERROR_MEMORY, "There is not enough memory.");
}

static int not_a_problem(struct husk_error *error, const struct refusal *refusal)
{
    int status = refusal->status;
    if (status >= 300 && status < 400)
        return complain(error, HUSK_ERROR_ANSWER,
                        "%s redirects to elsewhere (%d), and redirections are not followed. Use "
                        "the address of the service itself.",
                        refusal->base, status);
    return complain(error, HUSK_ERROR_ANSWER,
                    "%s answered %d, and not in the way of Husk. Does something else listen there, "
                    "or a proxy stand between?",
                    refusal->base, status);
}

int complain_refusal(struct husk_error *error, const struct refusal *refusal)
{
    json_auto_t *problem = refusal->status >= 400 ? json_loadb(refusal->body ? refusal->body : "",
                                                               refusal->length, 0, NULL)
                                                  : NULL;
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    const char *code = json_string_value(json_object_get(problem, "code"));
    int r;
    if (!detail)
        detail = json_string_value(json_object_get(problem, "title"));
    if (detail && *detail)
        r = complain(error, HUSK_ERROR_REFUSED, "%s", detail);
    else
        r = not_a_problem(error, refusal);
    if (error) {
        error->http_status = refusal->status;
        error->retry_after = refusal->retry_after;
        if (code && r == -HUSK_ERROR_REFUSED)
            copy_clean(error->code, sizeof error->code, code);
    }
    return r;
}
