#include "command/source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "husk/limits.h"

int source_read(const char *path, size_t limit, struct buffer *ret, struct failure *why)
{
    bool standard = !strcmp(path, "-");
    const char *shown = standard ? "standard input" : path;
    _cleanup_close_ int opened = standard ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    int fd = standard ? STDIN_FILENO : opened;
    if (fd < 0)
        return fail(why, errno, "'%.150s' cannot be read", shown);
    for (;;) {
        char block[64 * KIB];
        ssize_t n = read_some(fd, block, sizeof block);
        if (n < 0)
            return fail(why, (int)n, "'%.150s' cannot be read", shown);
        if (n == 0)
            return 0;
        if (ret->length + (size_t)n > limit)
            return fail_plain(why, EFBIG, "'%.150s' is larger than %zu bytes.", shown, limit);
        if (buffer_append(ret, block, (size_t)n) < 0)
            return fail(why, ENOMEM, "'%.150s' cannot be read", shown);
    }
}
