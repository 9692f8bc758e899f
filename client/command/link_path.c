#include "command/link_path.h"

#include <string.h>

/* The length of the component at *path, which moves to its begin; 0: there is none. "." is left out. */
static size_t component(const char **path)
{
    for (;;) {
        *path += strspn(*path, "/");
        size_t length = strcspn(*path, "/");
        if (length != 1 || **path != '.')
            return length;
        *path += length;
    }
}

static bool is_up(const char *name, size_t length)
{
    return length == 2 && !strncmp(name, "..", 2);
}

bool link_stays(const char *path, const char *target)
{
    size_t folders = 0;
    if (!*target || *target == '/')
        return false;
    for (size_t length; (length = component(&path)) > 0; path += length)
        folders++;
    if (folders > 0)
        folders--; /* the link itself is none */
    bool down = false;
    for (size_t length; (length = component(&target)) > 0; target += length) {
        if (!is_up(target, length))
            down = true;
        else if (down || folders-- == 0)
            return false;
    }
    return true;
}

bool path_is_below(const char *path)
{
    size_t names = 0;
    if (*path == '/')
        return false;
    for (size_t length; (length = component(&path)) > 0; path += length, names++) {
        if (is_up(path, length))
            return false;
    }
    return names > 0;
}
