/* `husk install` and `husk packages`. */
#include <string.h>

#include "command/exit_status.h"
#include "command/interruption.h"
#include "command/say.h"
#include "command/session.h"
#include "command/setup.h"
#include "command/source.h"
#include "command/table.h"
#include "command/verbs.h"
#include "husk/limits.h"

const char help_install[] =
    "Install Python packages into a sandbox, and print what is new. Husk fetches them: the sandbox "
    "has no\n"
    "network. The exit status is 1 if it did not work; then everything is as it was.\n"
    "\n"
    "  -r, --requirements FILE  of this machine; - is standard input\n"
    "  -U, --upgrade            newer ones in place of those that are there\n"
    "  --pre                    also versions that are not yet final\n"
    "\n"
    "Examples:\n"
    "  husk install demo humanize 'pyyaml>=6'\n"
    "  husk install demo -r requirements.txt\n";

const char help_packages[] = "What is installed in a sandbox, or the state of one package.\n"
                             "\n"
                             "Examples:\n"
                             "  husk packages demo\n"
                             "  husk packages demo numpy\n";

DEFINE_CLEANUP(struct husk_package_list, husk_package_list_free);

int verb_install(const struct invocation *invocation, int argc, char **argv)
{
    const char *file = NULL;
    struct husk_install order = {};
    struct failure why;
    const struct option table[] = {{"requirements", 'r', OPTION_TEXT, &file},
                                   {"upgrade", 'U', OPTION_FLAG, &order.upgrade},
                                   {"pre", '\0', OPTION_FLAG, &order.pre},
                                   {}};
    _cleanup_session_ struct session session = {
        .line = {.options = table, .least = 1, .most = ANY_NUMBER}};
    _cleanup_buffer_ struct buffer text = {};
    if (!session_begin(&session, invocation, argc, argv))
        return session.line.status;
    const struct words *words = &session.line.words;
    if ((words->count > 1) == (file != NULL)) {
        say("Which packages? `husk install SANDBOX PACKAGE…`, or --requirements FILE.");
        return EXIT_USAGE;
    }
    if (file && source_read(file, MAX_SMALL_BODY_BYTES / 2, &text, &why) < 0) {
        say("%s", why.text);
        return EXIT_LOCAL;
    }
    if (!session_guard(&session))
        return session.line.status;
    order.packages = words->items + 1;
    order.package_count = words->count - 1;
    order.requirements = file ? buffer_text(&text) : NULL;
    return setup_install(&session, words->items[0], &order, false);
}

int verb_packages(const struct invocation *invocation, int argc, char **argv)
{
    _cleanup_session_ struct session session = {.line = {.least = 1, .most = 2}};
    _cleanup_(husk_package_list_free_cleanup) struct husk_package_list *list = NULL;
    if (!session_begin(&session, invocation, argc, argv))
        return session.line.status;
    const struct words *words = &session.line.words;
    const char *sandbox = words->items[0], *name = words->count > 1 ? words->items[1] : NULL;
    int r = name ? husk_package(session.husk, sandbox, name, &list, &session.error)
                 : husk_packages(session.husk, sandbox, &list, &session.error);
    if (r < 0)
        return session_failed(&session);
    bool there = !name || (list->count == 1 && !strcmp(list->packages[0].status, "installed"));
    int status = there ? EXIT_GOOD : EXIT_CODE_FAILED;
    if (session.invocation->json)
        return session_print(list->json) == EXIT_GOOD ? status : EXIT_LOCAL;
    _cleanup_(table_free) struct table table = {.titles = {"PACKAGE", "VERSION", "STATUS"}};
    for (size_t i = 0; i < list->count; i++) {
        const struct husk_package *package = &list->packages[i];
        const char *const cells[] = {package->name, package->version, package->status};
        table_add(&table, cells);
    }
    table_print(&table, session.invocation->terminal);
    return status;
}
