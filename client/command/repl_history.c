#include "command/repl_history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "base/text.h"
#include "command/state_path.h"
#include "command/wide.h"
#include "husk/limits.h"

struct history {
    int fd; /* -1: this session's only */
    size_t count;
    wchar_t *entries[MAX_HISTORY_ENTRIES];
};

/* --- where ---------------------------------------------------------------------------------------- */

static int open_file(void)
{
    _cleanup_free_ char *path = state_path("history");
    if (!path)
        return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat status;
    if (fd >= 0 && (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode)))
        return close_fd(fd);
    if (fd >= 0)
        fchmod(fd, 0600);
    return fd;
}

/* --- lines ---------------------------------------------------------------------------------------- */

static void add(struct history *history, wchar_t *entry)
{
    if (history->count == MAX_HISTORY_ENTRIES) {
        free(history->entries[0]);
        memmove(history->entries, history->entries + 1,
                (MAX_HISTORY_ENTRIES - 1) * sizeof history->entries[0]);
        history->count--;
    }
    history->entries[history->count++] = entry;
}

static void add_line(struct history *history, const char *line, size_t length)
{
    _cleanup_free_ char *text = malloc(length + 1);
    size_t count = 0;
    for (size_t i = 0; text && i < length; i++) {
        bool escaped = line[i] == '\\' && i + 1 < length;
        i += escaped;
        text[count++] = escaped && line[i] == 'n' ? '\n' : line[i];
    }
    if (!text || count == 0)
        return;
    text[count] = 0;
    wchar_t *entry = wide_of(text);
    if (entry)
        add(history, entry);
}

static void append_line(struct buffer *out, const wchar_t *entry)
{
    _cleanup_free_ char *text = narrow_of(entry);
    for (const char *c = text; c && *c; c++) {
        if (*c == '\n')
            buffer_append_text(out, "\\n");
        else if (*c == '\\')
            buffer_append_text(out, "\\\\");
        else
            buffer_append(out, c, 1);
    }
    buffer_append_text(out, "\n");
}

/* The end of the file, as far as it counts; true: there is more before it. */
static bool read_lines(struct history *history)
{
    struct stat status;
    if (fstat(history->fd, &status) < 0 || status.st_size <= 0)
        return false;
    uint64_t size = (uint64_t)status.st_size;
    uint64_t start = size > MAX_HISTORY_BYTES ? size - MAX_HISTORY_BYTES : 0;
    _cleanup_buffer_ struct buffer text = {};
    char *room = buffer_reserve(&text, MAX_HISTORY_BYTES);
    while (room && text.length < MAX_HISTORY_BYTES) {
        ssize_t got = read_at(history->fd, text.data + text.length, MAX_HISTORY_BYTES - text.length,
                              start + text.length);
        if (got <= 0)
            break;
        buffer_grow(&text, (size_t)got);
    }
    const char *line = text.data, *end = text.data + text.length;
    size_t lines = 0;
    for (bool whole = start == 0; line && line < end; whole = true) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        if (whole)
            add_line(history, line, (size_t)(stop - line));
        lines += whole;
        line = stop + 1;
    }
    return start > 0 || lines > MAX_HISTORY_ENTRIES;
}

/* Leave half of what may be there. The file stays the same one: other prompts append to it. */
static void shorten(const struct history *history)
{
    _cleanup_buffer_ struct buffer out = {};
    for (size_t i = history->count / 2; i < history->count; i++)
        append_line(&out, history->entries[i]);
    if (ftruncate(history->fd, 0) == 0)
        write_all(history->fd, out.data, out.length);
}

struct history *history_open(void)
{
    struct history *history = must_alloc(sizeof *history);
    history->fd = open_file();
    if (history->fd >= 0 && flock(history->fd, LOCK_EX) == 0) {
        if (read_lines(history))
            shorten(history);
        flock(history->fd, LOCK_UN);
    }
    return history;
}

struct history *history_close(struct history *history)
{
    if (!history)
        return NULL;
    for (size_t i = 0; i < history->count; i++)
        free(history->entries[i]);
    close_fd(history->fd);
    free(history);
    return NULL;
}

void history_remember(struct history *history, const wchar_t *cell)
{
    size_t length = wcslen(cell);
    if (length == 0 || length > MAX_HISTORY_CELL || *cell == L' ' ||
        (history->count && wcscmp(history->entries[history->count - 1], cell) == 0))
        return;
    wchar_t *entry = wcsdup(cell);
    if (!entry)
        return;
    add(history, entry);
    _cleanup_buffer_ struct buffer line = {};
    append_line(&line, entry);
    if (history->fd >= 0 && flock(history->fd, LOCK_EX) == 0) {
        write_all(history->fd, line.data, line.length);
        flock(history->fd, LOCK_UN);
    }
}

size_t history_count(const struct history *history)
{
    return history->count;
}

const wchar_t *history_entry(const struct history *history, size_t index)
{
    return history->entries[index];
}
