#include "venv_text.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

static bool is_separator(char c)
{
    return c == '-' || c == '_' || c == '.';
}

bool same_package(const char *a, const char *b)
{
    while (*a && *b) {
        if (is_separator(*a) && is_separator(*b)) {
            while (is_separator(*a))
                a++;
            while (is_separator(*b))
                b++;
        } else if (tolower((unsigned char)*a++) != tolower((unsigned char)*b++)) {
            return false;
        }
    }
    return !*a && !*b;
}

/* The first field, with its quotes undone. */
static void first_field(const char *line, char *out, size_t size)
{
    bool quoted = *line == '"';
    size_t length = 0;
    for (line += quoted; *line && length + 1 < size; line++) {
        if (quoted && *line == '"' && *++line != '"')
            break;
        if (!quoted && *line == ',')
            break;
        out[length++] = *line;
    }
    out[length] = '\0';
}

bool read_record_line(FILE *file, char *path, size_t size)
{
    char line[2 * PATH_MAX];
    while (fgets(line, sizeof line, file)) {
        if (!strchr(line, '\n') && !feof(file)) {
            for (int c; (c = getc(file)) != EOF && c != '\n';)
                ;
            continue;
        }
        line[strcspn(line, "\r\n")] = '\0';
        first_field(line, path, size);
        if (*path)
            return true;
    }
    return false;
}

bool resolve_below(const char *base, const char *entry, char *path, size_t size)
{
    char text[2 * PATH_MAX];
    size_t length = 0;
    if (*entry == '/' || snprintf(text, sizeof text, "%s/%s", base, entry) >= (int)sizeof text)
        return false;
    char *rest = NULL;
    for (char *part = strtok_r(text, "/", &rest); part; part = strtok_r(NULL, "/", &rest)) {
        if (!strcmp(part, "."))
            continue;
        if (!strcmp(part, "..")) {
            if (length == 0)
                return false;
            while (length > 0 && path[--length] != '/')
                ;
            continue;
        }
        if (length + strlen(part) + 2 > size)
            return false;
        if (length > 0)
            path[length++] = '/';
        memcpy(path + length, part, strlen(part));
        length += strlen(part);
    }
    path[length] = '\0';
    return length > 0;
}
