#include "huskd/file_path.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/text.h"

int file_path_clean(const char *text, char out[MAX_FILE_PATH_BYTES + 1])
{
    static const char home[] = "/home/user";
    size_t used = 0;
    if (!utf8_valid(text, strlen(text)))
        return -EINVAL;
    if (starts_with(text, home) && (text[strlen(home)] == '/' || !text[strlen(home)]))
        text += strlen(home) + (text[strlen(home)] == '/');
    if (*text == '/')
        return -EINVAL;
    while (*text) {
        size_t length = strcspn(text, "/");
        bool dots = length <= 2 && !strncmp(text, "..", length);
        if (dots && length == 2)
            return -EINVAL;
        if (!dots) {
            if (length > MAX_FILE_NAME_BYTES || used + 1 + length > MAX_FILE_PATH_BYTES)
                return -ENAMETOOLONG;
            if (used > 0)
                out[used++] = '/';
            memcpy(out + used, text, length);
            used += length;
        }
        text += length;
        text += *text == '/';
    }
    out[used] = '\0';
    return 0;
}

const char *file_path_last(const char *name)
{
    for (const char *at = name; *at; at++) {
        if (*at == '/' || *at == '\\')
            name = at + 1;
    }
    return name;
}
