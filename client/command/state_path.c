#include "command/state_path.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"

/* Whatever is wrong with them is told by who opens the file. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
}

static bool is_absolute(const char *path)
{
    return path && *path == '/';
}

char *state_path(const char *name)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (!is_absolute(state) && !is_absolute(home))
        return NULL;
    char *path = is_absolute(state) ? must_format("%s/husk/%s", state, name)
                                    : must_format("%s/.local/state/husk/%s", home, name);
    make_folders(path);
    return path;
}
