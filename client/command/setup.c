#include "command/setup.h"

#include <stdio.h>
#include <string.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "command/exit_status.h"
#include "command/progress.h"
#include "command/say.h"

DEFINE_CLEANUP(struct husk_installed, husk_installed_free);

struct watcher {
    struct progress progress;
    bool json, silent;
};

static int on_event(const struct husk_event *event, void *user)
{
    struct watcher *watcher = user;
    if (watcher->json && !watcher->silent)
        return session_print(event->json);
    if (event->kind == HUSK_EVENT_PROGRESS)
        progress_text(&watcher->progress, event->text.data);
    return 0;
}

static void tell(const struct husk_installed *installed)
{
    _cleanup_buffer_ struct buffer text = {};
    for (size_t i = 0; i < installed->count; i++) {
        const struct husk_package *package = &installed->packages[i];
        (void)buffer_printf(&text, "%s %s\n", package->name, package->version);
    }
    (void)say_text(1, text.data, text.length);
}

int setup_install(struct session *session, const char *sandbox, const struct husk_install *order,
                  bool silent)
{
    struct watcher watcher = {.json = session->invocation->json, .silent = silent};
    _cleanup_(husk_installed_free_cleanup) struct husk_installed *installed = NULL;
    progress_begin(&watcher.progress, session->invocation, "installing");
    int r = husk_install(session->husk, sandbox, order, on_event, &watcher, &installed,
                         &session->error);
    progress_end(&watcher.progress);
    if (r < 0)
        return session_failed(session);
    if (watcher.json && !silent)
        (void)session_print(installed->json);
    else if (!installed->success)
        say("The packages could not be installed: %s",
            *installed->error ? installed->error : installed->output);
    else if (!silent)
        tell(installed);
    if (installed->restart_needed && !session->invocation->quiet && !watcher.json)
        say("the kernel has imported what was replaced: `husk restart %s` makes it new", sandbox);
    return installed->success ? EXIT_GOOD : EXIT_CODE_FAILED;
}
