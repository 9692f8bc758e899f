#include "command/send.h"

#include <inttypes.h>
#include <string.h>

#include "base/attributes.h"
#include "base/memory.h"
#include "command/exit_status.h"
#include "command/folder.h"
#include "command/human.h"
#include "command/pack.h"
#include "command/progress.h"
#include "command/say.h"

DEFINE_CLEANUP(struct pack, pack_free);

/* "folder/name", and one slash between them. */
static char *joined(const char *folder, const char *name)
{
    size_t length = strlen(folder);
    while (length > 0 && folder[length - 1] == '/')
        length--;
    return must_format("%.*s%s%s", (int)length, folder, length > 0 && *name ? "/" : "", name);
}

static int send_file(struct session *session, const char *sandbox, const struct send_order *order)
{
    _cleanup_free_ char *name = folder_last_name(order->local), *path = NULL;
    struct progress progress;
    bool standard = !strcmp(order->local, "-");
    if (standard && (!order->to || order->into)) {
        say("Standard input has no name: say --to FILE.");
        return EXIT_USAGE;
    }
    path =
        order->to && !order->into ? must_copy(order->to) : joined(order->to ? order->to : "", name);
    progress_begin(&progress, session->invocation, standard ? "standard input" : name);
    husk_on_progress(session->husk, progress_bytes, &progress);
    int r = husk_upload_file(session->husk, sandbox, order->local, path, &session->error);
    husk_on_progress(session->husk, NULL, NULL);
    progress_end(&progress);
    if (r < 0)
        return session_failed(session);
    return session_success(session, "path", path, NULL);
}

static void mention_left_out(const struct session *session, const struct pack_counts *counts)
{
    if (counts->left_out > 0 && !session->invocation->quiet)
        say("left out %" PRIu64
            " that a sandbox cannot have (links that lead elsewhere, pipes, sockets, "
            "devices), the first is '%s'",
            counts->left_out, counts->first_left_out);
}

/* Into `path`, where all names begin with `name`. */
static int send_packed(struct session *session, const char *sandbox, const struct send_order *order,
                       const char *name, const char *path)
{
    _cleanup_(pack_free_cleanup) struct pack *pack = NULL;
    struct failure why;
    struct progress progress;
    struct pack_order folder = {.folder = order->local,
                                .name = name,
                                .excludes = order->excludes.items,
                                .exclude_count = order->excludes.count};
    if (pack_new(&folder, &pack, &why) < 0) {
        say("%s", why.text);
        return EXIT_LOCAL;
    }
    const struct pack_counts *counts = pack_counts(pack);
    progress_begin(&progress, session->invocation, *name ? name : order->local);
    progress.done = &counts->bytes;
    progress.total = &counts->total_bytes;
    husk_on_progress(session->husk, progress_bytes, &progress);
    int r =
        husk_upload_from(session->husk, sandbox, pack_read, pack, 0, path, true, &session->error);
    husk_on_progress(session->husk, NULL, NULL);
    progress_end(&progress);
    if (r < 0 && pack_failure(pack)) {
        say("%s", pack_failure(pack));
        return EXIT_LOCAL;
    }
    if (r < 0)
        return session_failed(session);
    mention_left_out(session, counts);
    _cleanup_free_ char *shown = joined(path, name);
    return session_success(session, "path", *shown ? shown : ".", NULL);
}

int send_path(struct session *session, const char *sandbox, const struct send_order *order)
{
    if (!strcmp(order->local, "-") || !folder_is(order->local))
        return send_file(session, sandbox, order);
    bool renamed = order->to && !order->into;
    _cleanup_free_ char *name = renamed ? must_copy("") : folder_last_name(order->local);
    return send_packed(session, sandbox, order, name, order->to ? order->to : "");
}
