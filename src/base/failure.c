#include "base/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

static int record(struct failure *why, int code, const char *format, va_list arguments)
{
    code = code < 0 ? -code : code;
    if (why) {
        why->code = code;
        (void)vsnprintf(why->text, sizeof why->text, format, arguments);
    }
    return -code;
}

int fail(struct failure *why, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int result = record(why, code, format, arguments);
    va_end(arguments);
    if (why) {
        size_t used = strlen(why->text);
        (void)snprintf(why->text + used, sizeof why->text - used, ": %s", strerror(why->code));
    }
    return result;
}

int fail_plain(struct failure *why, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int result = record(why, code, format, arguments);
    va_end(arguments);
    return result;
}

void assert_failed(const char *condition, const char *file, int line)
{
    log_line(LOG_ERROR, "this is a bug in Husk: %s does not hold at %s:%d", condition, file, line);
    abort();
}
