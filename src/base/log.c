#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/text.h"

enum {
    LARGEST_LINE = 8192,
    NUMBER_SLOTS = 8
};

static struct {
    const char *program;
    enum log_level level;
    enum log_format format;
    const char *context_key; /* NULL: none */
    const char *context_value;
} settings = {.program = "husk", .level = LOG_INFO, .format = LOG_FORMAT_TEXT};

static const char *const level_names[] = {"debug", "info", "warning", "error"};

void log_setup(const char *program, enum log_level level, enum log_format format)
{
    settings.program = program;
    settings.level = level;
    settings.format = format;
    if (format == LOG_FORMAT_AUTO)
        settings.format = isatty(STDERR_FILENO) ? LOG_FORMAT_TEXT : LOG_FORMAT_JSON;
}

void log_context(const char *key, const char *value)
{
    settings.context_key = key;
    settings.context_value = value;
}

enum log_level log_current_level(void)
{
    return settings.level;
}

enum log_format log_current_format(void)
{
    return settings.format;
}

/* U+0080 to U+009F, two bytes: terminals obey them as they do ESC sequences. */
static bool is_upper_control(const char *p)
{
    return (unsigned char)p[0] == 0xc2 && ((unsigned char)p[1] & 0xe0) == 0x80;
}

/* Inside double quotes, for JSON and for quoted text alike. Bytes that are not UTF-8 become \u00XX.
 */
static void append_escaped(struct buffer *line, const char *text)
{
    bool valid = utf8_valid(text, strlen(text));
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            (void)buffer_printf(line, "\\%c", c);
        else if (c == '\n')
            (void)buffer_append_text(line, "\\n");
        else if (valid && is_upper_control(p))
            (void)buffer_printf(line, "\\u%04x", (unsigned char)*++p);
        else if (c < 0x20 || c == 0x7f || (c >= 0x80 && !valid))
            (void)buffer_printf(line, "\\u%04x", c);
        else
            (void)buffer_append(line, p, 1);
    }
}

/* The message of a text line stands without quotes: what is not text in it is replaced. */
static void append_plain(struct buffer *line, const char *text)
{
    bool valid = utf8_valid(text, strlen(text));
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        bool upper_control = is_upper_control(p);
        if (upper_control || c < 0x20 || c == 0x7f)
            (void)buffer_append_text(line, " ");
        else
            (void)buffer_append(line, c >= 0x80 && !valid ? "?" : p, 1);
        p += upper_control;
    }
}

static bool needs_quotes(const char *text)
{
    if (!*text)
        return true;
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c >= 0x7f)
            return true;
    }
    return false;
}

static void append_field(struct buffer *line, const char *key, const char *value)
{
    if (settings.format == LOG_FORMAT_JSON) {
        (void)buffer_printf(line, ",\"%s\":\"", key);
        append_escaped(line, value);
        (void)buffer_append_text(line, "\"");
    } else if (needs_quotes(value)) {
        (void)buffer_printf(line, " %s=\"", key);
        append_escaped(line, value);
        (void)buffer_append_text(line, "\"");
    } else {
        (void)buffer_printf(line, " %s=%s", key, value);
    }
}

static void begin_line(struct buffer *line, enum log_level level, const char *message)
{
    char now[TIMESTAMP_SIZE];
    format_timestamp_micros(now);
    if (settings.format == LOG_FORMAT_JSON) {
        (void)buffer_printf(line, "{\"time\":\"%s\",\"level\":\"%s\",\"program\":\"%s\"", now,
                            level_names[level], settings.program);
        append_field(line, "message", message);
    } else {
        (void)buffer_printf(line, "%.8s %-7s %s: ", now + strlen("2026-11-18T"), level_names[level],
                            settings.program);
        append_plain(line, message);
    }
    if (settings.context_key)
        append_field(line, settings.context_key, settings.context_value);
}

/* One write per line, so that lines of several processes on one stderr do not mix. */
static void end_line(struct buffer *line)
{
    (void)buffer_append_text(line, settings.format == LOG_FORMAT_JSON ? "}\n" : "\n");
    (void)write_all(STDERR_FILENO, line->data, line->length);
}

void log_event(enum log_level level, const char *message, ...)
{
    if (level < settings.level)
        return;
    _cleanup_buffer_ struct buffer line = {0};
    begin_line(&line, level, message);
    va_list pairs;
    va_start(pairs, message);
    for (const char *key; (key = va_arg(pairs, const char *)) != NULL;) {
        const char *value = va_arg(pairs, const char *);
        if (value)
            append_field(&line, key, value);
    }
    va_end(pairs);
    end_line(&line);
}

void log_line(enum log_level level, const char *format, ...)
{
    if (level < settings.level)
        return;
    char message[LARGEST_LINE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    _cleanup_buffer_ struct buffer line = {0};
    begin_line(&line, level, message);
    end_line(&line);
}

const char *log_number(int64_t number)
{
    static char slots[NUMBER_SLOTS][24];
    static unsigned next;
    char *slot = slots[next++ % NUMBER_SLOTS];
    (void)snprintf(slot, sizeof slots[0], "%lld", (long long)number);
    return slot;
}
