#include "huskd/name.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/attributes.h"
#include "base/id.h"
#include "husk/limits.h"

static bool allowed(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

/* "." and ".." are taken out of paths by clients; the others are routes below /sandbox/. */
static bool reserved(const char *text)
{
    static const char *const words[] = {".", "..", "create", "file"};
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        if (!strcmp(text, words[i]))
            return true;
    }
    return false;
}

const char *name_fault(const char *text, size_t length)
{
    struct id id;
    if (length < 1 || length > MAX_NAME_LENGTH)
        return "must have 1 to 63 characters";
    for (size_t i = 0; i < length; i++) {
        if (!allowed(text[i]))
            return "may contain only letters, digits, '.', '_' and '-'";
    }
    if (id_parse(text, &id) == 0)
        return "must not look like a sandbox id";
    if (reserved(text))
        return "must not be '.', '..', 'create' or 'file'";
    return NULL;
}
