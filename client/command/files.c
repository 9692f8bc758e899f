/* `husk put`, `get`, `files` and `rm`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "command/exit_status.h"
#include "command/human.h"
#include "command/interruption.h"
#include "command/receive.h"
#include "command/say.h"
#include "command/send.h"
#include "command/session.h"
#include "command/table.h"
#include "command/verbs.h"

const char help_put[] = "Send files and folders to a sandbox. A file appears there when it is "
                        "complete, a folder as a whole or\n"
                        "not at all. PATH - is standard input, which needs --to FILE; PATH . means "
                        "what is in the current\n"
                        "folder.\n"
                        "\n"
                        "  --to PATH            where to, below /home/user: what it becomes; a "
                        "folder if it ends with / or\n"
                        "                       there are several (the working directory)\n"
                        "  -x, --exclude NAME   of folders: leave out what is called so; * and ? "
                        "work; may be said again\n"
                        "\n"
                        "Examples:\n"
                        "  husk put demo sales.csv\n"
                        "  husk put demo --to data/ *.csv\n"
                        "  husk put demo --exclude .git --exclude __pycache__ project\n"
                        "  pg_dump shop | husk put demo --to shop.sql -\n";

const char help_get[] =
    "Fetch files and folders from a sandbox into the current folder. A file appears when it is "
    "complete;\n"
    "files that are there already are replaced. PATH . is all there is. Links that lead out of a "
    "folder are\n"
    "left out.\n"
    "\n"
    "  -o, --output PATH    where to: what it becomes, or the folder it goes into if that exists, "
    "ends with\n"
    "                       / or there are several; - is standard output, folders as tar\n"
    "\n"
    "Examples:\n"
    "  husk get demo report.csv\n"
    "  husk get demo results -o results-of-today\n"
    "  husk get demo data/big.csv -o - | head\n";

const char help_files[] =
    "List the files of a sandbox, or of a folder in it.\n"
    "\n"
    "  -1, --one-level      not what is in folders, but the folders themselves\n"
    "\n"
    "Examples:\n"
    "  husk files demo\n"
    "  husk files demo -1 data\n";

const char help_rm[] = "Remove files, and folders with all that is in them, from a sandbox.\n"
                       "\n"
                       "Example:\n"
                       "  husk rm demo data old.csv\n";

DEFINE_CLEANUP(struct husk_file_list, husk_file_list_free);

static bool ends_with_slash(const char *path)
{
    return path && *path && path[strlen(path) - 1] == '/';
}

int verb_put(const struct invocation *invocation, int argc, char **argv)
{
    struct send_order order = {};
    const struct option table[] = {
        {"to", '\0', OPTION_TEXT, &order.to}, {"exclude", 'x', OPTION_WORDS, &order.excludes}, {}};
    _cleanup_session_ struct session session = {
        .line = {.options = table, .least = 2, .most = ANY_NUMBER}};
    int status = EXIT_USAGE;
    if (!session_begin(&session, invocation, argc, argv) || !session_guard(&session)) {
        status = session.line.status;
    } else {
        const struct words *words = &session.line.words;
        order.into = order.to && (ends_with_slash(order.to) || words->count > 2);
        status = EXIT_GOOD;
        for (size_t i = 1; i < words->count && status == EXIT_GOOD; i++) {
            order.local = words->items[i];
            status = send_path(&session, words->items[0], &order);
        }
    }
    words_free(&order.excludes);
    return status;
}

int verb_get(const struct invocation *invocation, int argc, char **argv)
{
    struct receive_order order = {};
    const struct option table[] = {{"output", 'o', OPTION_TEXT, &order.local}, {}};
    _cleanup_session_ struct session session = {
        .line = {.options = table, .least = 2, .most = ANY_NUMBER}};
    if (!session_begin(&session, invocation, argc, argv) || !session_guard(&session))
        return session.line.status;
    const struct words *words = &session.line.words;
    bool standard = order.local && !strcmp(order.local, "-");
    order.into = order.local && !standard && (ends_with_slash(order.local) || words->count > 2);
    int status = EXIT_GOOD;
    for (size_t i = 1; i < words->count && status == EXIT_GOOD; i++) {
        order.path = words->items[i];
        status = receive_path(&session, words->items[0], &order);
    }
    return status;
}

int verb_files(const struct invocation *invocation, int argc, char **argv)
{
    bool one_level = false;
    const struct option table[] = {{"one-level", '1', OPTION_FLAG, &one_level}, {}};
    _cleanup_session_ struct session session = {.line = {.options = table, .least = 1, .most = 2}};
    _cleanup_(husk_file_list_free_cleanup) struct husk_file_list *list = NULL;
    if (!session_begin(&session, invocation, argc, argv))
        return session.line.status;
    const struct words *words = &session.line.words;
    const char *folder = words->count > 1 ? words->items[1] : NULL;
    if (husk_files(session.husk, words->items[0], folder, !one_level, &list, &session.error) < 0)
        return session_failed(&session);
    if (list->incomplete && !session.invocation->quiet)
        say("there are more files than are listed here");
    if (session.invocation->json)
        return session_print(list->json);
    _cleanup_(table_free) struct table output = {.titles = {"SIZE", "MODIFIED", "PATH"},
                                                 .elastic = 2};
    for (size_t i = 0; i < list->count; i++) {
        const struct husk_file *file = &list->files[i];
        char size[HUMAN_SIZE] = "";
        bool inner = !strcmp(file->type, "inode/directory");
        if (!inner && session.invocation->terminal)
            human_bytes(file->size, size);
        else if (!inner)
            (void)snprintf(size, sizeof size, "%" PRIu64, file->size);
        _cleanup_free_ char *path = must_format("%s%s", file->path, inner ? "/" : "");
        table_add(&output, (const char *const[]){size, file->modified_at, path});
    }
    if (list->count > 0 || !session.invocation->terminal)
        table_print(&output, session.invocation->terminal);
    return EXIT_GOOD;
}

int verb_rm(const struct invocation *invocation, int argc, char **argv)
{
    _cleanup_session_ struct session session = {.line = {.least = 2, .most = ANY_NUMBER}};
    if (!session_begin(&session, invocation, argc, argv))
        return session.line.status;
    const struct words *words = &session.line.words;
    int status = EXIT_GOOD;
    for (size_t i = 1; i < words->count; i++) {
        if (husk_remove(session.husk, words->items[0], words->items[i], &session.error) < 0)
            status = session_failed(&session);
        else
            (void)session_success(&session, "path", words->items[i], NULL);
    }
    return status;
}
