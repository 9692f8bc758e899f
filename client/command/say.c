#include "command/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/fdio.h"
#include "command/defuse.h"

static bool as_json;

void say_as_json(bool json)
{
    as_json = json;
}

bool says_json(void)
{
    return as_json;
}

int say_text(int fd, const char *text, size_t length)
{
    if (!isatty(fd))
        return write_all(fd, text, length);
    _cleanup_buffer_ struct buffer out = {};
    struct defuse defuse = {};
    defuse_text(&defuse, text, length, &out);
    defuse_end(&defuse, &out);
    return write_all(fd, out.data, out.length);
}

void say(const char *format, ...)
{
    _cleanup_free_ char *text = NULL, *line = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    length = asprintf(&line, "husk: %s\n", text);
    if (length > 0)
        (void)say_text(STDERR_FILENO, line, (size_t)length);
}
