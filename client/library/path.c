#include "library/path.h"

#include <string.h>

#include "base/percent.h"
#include "base/text.h"
#include "husk/limits.h"
#include "library/complaint.h"

static void note(struct path *path, int r)
{
    if (r == 0 && !buffer_text(&path->text))
        r = -1;
    if (r < 0 && path->result == 0)
        path->result = complain_memory(path->error);
}

void path_add(struct path *path, const char *text)
{
    if (path->result == 0)
        note(path, buffer_append_text(&path->text, text));
}

static bool acceptable(struct path *path, const char *text, size_t limit, const char *what)
{
    if (path->result < 0)
        return false;
    if (!text || !*text)
        path->result =
            complain(path->error, HUSK_ERROR_ARGUMENT, "Say which %s: it is empty.", what);
    else if (strlen(text) > limit)
        path->result = complain(path->error, HUSK_ERROR_ARGUMENT, "The %s has more than %zu bytes.",
                                what, limit);
    else if (!utf8_valid(text, strlen(text)))
        path->result =
            complain(path->error, HUSK_ERROR_ARGUMENT, "The %s is not valid UTF-8.", what);
    return path->result == 0;
}

void path_add_name(struct path *path, const char *name, const char *what)
{
    if (acceptable(path, name, CLIENT_NAME_BYTES, what))
        note(path, percent_encode(name, "", &path->text));
}

void path_add_file(struct path *path, const char *file)
{
    if (file && *file && acceptable(path, file, CLIENT_PATH_BYTES, "path"))
        note(path, percent_encode(file, "/", &path->text));
}

void path_begin(struct path *path, const char *sandbox, const char *rest, struct husk_error *error)
{
    *path = (struct path){.error = error};
    path_add(path, "/sandbox/");
    path_add_name(path, sandbox, "sandbox");
    path_add(path, rest);
}

void path_free(struct path *path)
{
    buffer_free(&path->text);
}
