/* The few commands of the prompt itself. Everything else is for the kernel: %magics, !commands. */
#include <histedit.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "command/human.h"
#include "command/receive.h"
#include "command/repl.h"
#include "command/repl_interrupt.h"
#include "command/send.h"
#include "command/table.h"

enum {
    MAX_SHOWN_FILES = 1000
};

DEFINE_CLEANUP(struct husk_file_list, husk_file_list_free);

static const char help[] =
    "Enter runs a cell when it is complete; Alt-Enter adds a line. Tab completes.\n"
    "name? tells about a name, name?? shows its source. Up and Down go through cells\n"
    "that begin with what is typed, Ctrl-R searches them. Ctrl-C drops what is\n"
    "typed, or interrupts the cell that runs; Ctrl-D ends. !command is for the shell\n"
    "of the sandbox, %pip install PACKAGE installs.\n"
    "\n"
    "  :files [FOLDER]     what is in the sandbox\n"
    "  :get PATH [LOCAL]   fetch a file or a folder from the sandbox\n"
    "  :put LOCAL [PATH]   send one to it\n"
    "  :restart            a fresh kernel: variables are gone, files stay\n"
    "  :help               this\n"
    "  :quit               as Ctrl-D\n";

static bool on_help(struct repl *repl, int argc, const char **argv)
{
    (void)repl;
    (void)argc;
    (void)argv;
    write_all(STDOUT_FILENO, help, sizeof help - 1);
    return true;
}

static bool on_quit(struct repl *repl, int argc, const char **argv)
{
    (void)repl;
    (void)argc;
    (void)argv;
    return false;
}

static bool on_restart(struct repl *repl, int argc, const char **argv)
{
    struct session *session = repl->session;
    (void)argc;
    (void)argv;
    if (husk_restart(session->husk, repl->sandbox, &session->error) < 0) {
        display_note(&repl->display, "%s", session->error.message);
    } else {
        display_note(&repl->display, "A fresh kernel: variables are gone, files are still there.");
        repl->count = 1;
    }
    return true;
}

static bool on_files(struct repl *repl, int argc, const char **argv)
{
    struct session *session = repl->session;
    _cleanup_(husk_file_list_free_cleanup) struct husk_file_list *list = NULL;
    if (husk_files(session->husk, repl->sandbox, argc > 1 ? argv[1] : NULL, true, &list,
                   &session->error) < 0) {
        display_note(&repl->display, "%s", session->error.message);
        return true;
    }
    struct table table = {.titles = {"SIZE", "MODIFIED", "PATH"}, .elastic = 2};
    for (size_t i = 0; i < list->count && i < MAX_SHOWN_FILES; i++) {
        char size[HUMAN_SIZE];
        human_bytes(list->files[i].size, size);
        table_add(&table, (const char *[]){size, list->files[i].modified_at, list->files[i].path});
    }
    if (list->count > 0)
        table_print(&table, true);
    else
        display_note(&repl->display, "There are no files.");
    table_free(&table);
    if (list->count > MAX_SHOWN_FILES || list->incomplete)
        display_note(&repl->display, "There are more.");
    return true;
}

static bool on_transfer(struct repl *repl, int argc, const char **argv)
{
    int status;
    if (!strcmp(argv[0], ":get"))
        status = receive_path(
            repl->session, repl->sandbox,
            &(struct receive_order){.path = argv[1], .local = argc > 2 ? argv[2] : NULL});
    else
        status = send_path(repl->session, repl->sandbox,
                           &(struct send_order){.local = argv[1], .to = argc > 2 ? argv[2] : NULL});
    if (status == 0)
        display_note(&repl->display, "%s: done", argv[1]);
    return true;
}

static const struct {
    const char *name;
    int least, most; /* words, its name included */
    bool inside;     /* it needs the sandbox */
    bool (*run)(struct repl *repl, int argc, const char **argv);
} commands[] = {
    {":help", 1, 1, false, on_help},      {":quit", 1, 1, false, on_quit},
    {":restart", 1, 1, true, on_restart}, {":files", 1, 2, true, on_files},
    {":get", 2, 3, true, on_transfer},    {":put", 2, 3, true, on_transfer},
};

/* In the sandbox: Ctrl-C ends it, and nothing of a transfer is left. */
static bool run_inside(struct repl *repl, size_t index, int argc, const char **argv)
{
    struct interrupter interrupter;
    if (!repl_sandbox(repl) ||
        interrupter_begin(&interrupter, repl->session->husk, repl->messenger, repl->sandbox) < 0)
        return true;
    bool goes_on = commands[index].run(repl, argc, argv);
    (void)repl_given_up(repl, &interrupter, &repl->session->error);
    return goes_on;
}

static bool dispatch(struct repl *repl, int argc, const char **argv)
{
    for (size_t i = 0; i < ARRAY_LENGTH(commands); i++) {
        if (strcmp(argv[0], commands[i].name) != 0)
            continue;
        if (argc < commands[i].least || argc > commands[i].most)
            break;
        repl->session->error = (struct husk_error){};
        return commands[i].inside ? run_inside(repl, i, argc, argv)
                                  : commands[i].run(repl, argc, argv);
    }
    display_note(&repl->display, "There is no %s, or it wants other words. :help tells.", argv[0]);
    return true;
}

bool repl_command(struct repl *repl, const char *line)
{
    Tokenizer *tokenizer = tok_init(NULL);
    int argc = 0;
    const char **argv = NULL;
    bool goes_on = true;
    /* Words as a shell takes them: quotes and backslashes. */
    if (tokenizer && tok_str(tokenizer, line, &argc, &argv) == 0 && argc > 0)
        goes_on = dispatch(repl, argc, argv);
    else
        display_note(&repl->display, "A quote is open.");
    tok_end(tokenizer);
    return goes_on;
}
