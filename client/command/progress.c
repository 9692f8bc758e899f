#include "command/progress.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "command/defuse.h"
#include "command/human.h"
#include "command/terminal.h"
#include "command/verb.h"

enum {
    PATIENCE_MS = 1000,
    REDRAW_MS = 100,
    BAR_COLUMNS = 24
};

void progress_begin(struct progress *progress, const struct invocation *invocation,
                    const char *label)
{
    *progress = (struct progress){.wanted = !invocation->quiet && terminal_can_move(STDERR_FILENO),
                                  .label = label,
                                  .started_ms = now_ms()};
}

static bool is_due(struct progress *progress, uint64_t patience)
{
    uint64_t now = now_ms();
    if (!progress->wanted || now - progress->started_ms < patience ||
        (progress->drawn && now - progress->drawn_ms < REDRAW_MS))
        return false;
    progress->drawn_ms = now;
    return true;
}

/* One line, cut to the width of the terminal. */
static void draw(struct progress *progress, const char *text)
{
    _cleanup_buffer_ struct buffer safe = {}, line = {};
    struct defuse defuse = {.one_line = true};
    defuse_text(&defuse, text, strlen(text), &safe);
    defuse_end(&defuse, &safe);
    const char *shown = buffer_text(&safe);
    if (!shown)
        return;
    size_t fitting = terminal_fitting(shown, terminal_width(STDERR_FILENO) - 1);
    (void)buffer_printf(&line, "\r%.*s\x1b[K", (int)fitting, shown);
    (void)write_all(STDERR_FILENO, line.data, line.length);
    progress->drawn = true;
}

int progress_bytes(uint64_t done, uint64_t total, void *user)
{
    struct progress *progress = user;
    if (!is_due(progress, PATIENCE_MS))
        return 0;
    if (progress->done)
        done = *progress->done;
    if (progress->total)
        total = *progress->total;
    uint64_t passed = now_ms() - progress->started_ms;
    char size[HUMAN_SIZE], rate[HUMAN_SIZE], share[16] = "", bar[BAR_COLUMNS * 3 + 8] = "";
    human_bytes(done, size);
    human_bytes(done * 1000 / (passed ? passed : 1), rate);
    if (total > 0) {
        uint64_t part = done < total ? done : total;
        (void)snprintf(share, sizeof share, " %3u%%",
                       (unsigned)((double)part * 100 / (double)total));
        size_t full = (size_t)((double)part * BAR_COLUMNS / (double)total);
        for (size_t i = 0; i < BAR_COLUMNS; i++)
            strcat(bar, i < full ? "█" : "░");
        strcat(bar, " ");
    }
    _cleanup_buffer_ struct buffer text = {};
    (void)buffer_printf(&text, "%s%s  %s%s  %s/s", progress->label, share, bar, size, rate);
    draw(progress, buffer_text(&text) ? text.data : "");
    return 0;
}

void progress_text(struct progress *progress, const char *text)
{
    if (!is_due(progress, 0))
        return;
    char passed[HUMAN_SIZE];
    human_duration((now_ms() - progress->started_ms) / 1000, passed);
    size_t length = strcspn(text, "\n");
    _cleanup_buffer_ struct buffer line = {};
    (void)buffer_printf(&line, "%s  %s  %.*s", progress->label, passed, (int)length, text);
    draw(progress, buffer_text(&line) ? line.data : "");
}

void progress_end(struct progress *progress)
{
    if (progress->drawn)
        (void)write_all(STDERR_FILENO, "\r\x1b[K", 4);
    progress->drawn = false;
}
