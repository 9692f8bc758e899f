#include "shim/oom.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNTER "oom_kill "

uint64_t oom_kills_in(const char *text)
{
    for (const char *line = text; line;) {
        if (strncmp(line, COUNTER, strlen(COUNTER)) == 0)
            return strtoull(line + strlen(COUNTER), NULL, 10);
        line = strchr(line, '\n');
        if (line)
            line++;
    }
    return 0;
}

uint64_t oom_kills(int fd)
{
    char text[1024];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    return oom_kills_in(text);
}
