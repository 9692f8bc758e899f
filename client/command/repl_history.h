/* What was entered, over all sessions: $XDG_STATE_HOME/husk/history, else ~/.local/state/husk/history. One cell a line, line breaks as \n and backslashes as \\; mode 0600,
 * for secrets are typed at prompts. Each new cell is appended at once, under a lock, so that several prompts share the file and
 * none loses what a crash cuts off; a file that has grown too long is written anew when it is opened. A file that cannot be had is no failure: then there is
 * the history of this session. */
#pragma once

#include <stddef.h>
#include <wchar.h>

struct history;

struct history *history_open(void);
struct history *history_close(struct history *history); /* NULL ok, returns NULL */

/* Remember a cell; not the same one twice in a row, none that begins with a space, and none that is very long. */
void history_remember(struct history *history, const wchar_t *cell);

size_t history_count(const struct history *history);
/* The oldest is 0. Borrowed until the next history_remember(). */
const wchar_t *history_entry(const struct history *history, size_t index);
