/* The log: one line per event on stderr, text or JSON. The caller that decides logs; helpers return
 * errors. Values are escaped: what a stranger sends cannot break a line. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum log_level {
    LOG_DEBUG,
    LOG_INFO,
    LOG_WARNING,
    LOG_ERROR
};
enum log_format {
    LOG_FORMAT_AUTO,
    LOG_FORMAT_TEXT,
    LOG_FORMAT_JSON
}; /* auto: text on a terminal, else JSON */

/* `program` is borrowed for the life of the process ("huskd", "keeper", …). */
void log_setup(const char *program, enum log_level level, enum log_format format);
/* A field for every line from now on, for a process that works for one thing. Both are borrowed for its life. */
void log_context(const char *key, const char *value);
enum log_level log_current_level(void);
enum log_format log_current_format(void); /* never AUTO */

/* An event with fields: log_event(LOG_INFO, "sandbox created", "sandbox", id, "name", name, NULL);
 * keys and values are strings in pairs, ended by NULL; a NULL value leaves its pair out. */
void log_event(enum log_level level, const char *message, ...) __attribute__((sentinel));
/* A free-form message. */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Number as a string for log_event(), in one of a few static buffers (at most 8 alive at a time).
 */
const char *log_number(int64_t number);
