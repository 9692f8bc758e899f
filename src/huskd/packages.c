#include "huskd/packages.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "huskd/config.h"
#include "huskd/fetch_client.h"
#include "huskd/install_words.h"
#include "huskd/problem.h"
#include "huskd/requirement.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "loop/loop.h"

enum {
    PATIENCE_MS = SHIM_PATIENCE_SECONDS * 1000
};

enum install_state {
    INSTALL_QUEUED,
    INSTALL_LISTING,
    INSTALL_FETCHING,
    INSTALL_INSTALLING
};

struct install {
    struct install *next;
    struct sandbox *sandbox;
    struct install_events events;
    enum install_state state;
    json_t *requirements;
    bool upgrade, pre, no_dependencies;
    uint64_t call;       /* LISTING, INSTALLING: to the shim */
    struct fetch *fetch; /* FETCHING */
    json_t *listed;      /* what is installed */
    json_t *fetched;     /* what will be */
    struct buffer output;
    uint64_t wanted_tag; /* of a pip inside; 0: none */
    struct timer *timer; /* its turn has come; later: it is silent */
};

struct failed_package {
    char name[MAX_PACKAGE_NAME + 1];
    char *error;
};

struct packages {
    struct install *first; /* the one that is worked on */
    struct failed_package failures[MAX_KEPT_FAILURES];
    size_t failure_count;
};

/* --- what went wrong before -------------------------------------------------------------------- */

static void forget_failure(struct packages *packages, const char *name)
{
    for (size_t i = 0; i < packages->failure_count; i++) {
        if (strcmp(packages->failures[i].name, name) != 0)
            continue;
        free(packages->failures[i].error);
        memmove(&packages->failures[i], &packages->failures[i + 1],
                (--packages->failure_count - i) * sizeof packages->failures[0]);
        return;
    }
}

static void keep_failure(struct packages *packages, const char *name, const char *error)
{
    forget_failure(packages, name);
    if (packages->failure_count == MAX_KEPT_FAILURES)
        forget_failure(packages, packages->failures[0].name);
    struct failed_package *failed = &packages->failures[packages->failure_count++];
    (void)snprintf(failed->name, sizeof failed->name, "%s", name);
    failed->error = must_copy(error);
}

static void note_outcome(struct install *install, const char *error)
{
    size_t i;
    const json_t *requirement;
    json_array_foreach(install->requirements, i, requirement)
    {
        char name[MAX_PACKAGE_NAME + 1];
        struct problem ignored;
        if (!requirement_check(json_string_value(requirement), json_string_length(requirement),
                               name, &ignored))
            continue;
        if (error)
            keep_failure(install->sandbox->packages, name, error);
        else
            forget_failure(install->sandbox->packages, name);
    }
}

/* --- the line ----------------------------------------------------------------------------------- */

static void free_install(struct install *install)
{
    fetch_cancel(install->fetch);
    timer_remove(install->timer);
    json_decref(install->requirements);
    json_decref(install->listed);
    json_decref(install->fetched);
    buffer_free(&install->output);
    free(install);
}

/* Out of the line; the next one begins. */
static void leave(struct install *install)
{
    struct packages *packages = install->sandbox->packages;
    bool first = packages->first == install;
    for (struct install **at = &packages->first; *at; at = &(*at)->next) {
        if (*at == install) {
            *at = install->next;
            break;
        }
    }
    if (first && packages->first)
        timer_arm(packages->first->timer, 0);
}

static void finish(struct install *install, struct install_result *result)
{
    struct install_events events = install->events;
    leave(install);
    note_outcome(install, result->error);
    log_event(LOG_INFO, result->success ? "packages installed" : "packages not installed",
              "sandbox", install->sandbox->text, "count",
              log_number((int64_t)json_array_size(result->installed)), NULL);
    result->output = buffer_text(&install->output);
    if (!result->output)
        result->output = "";
    if (events.done)
        events.done(result, events.user);
    free_install(install);
}

static void say(struct install *install, const char *line)
{
    if (install->output.length + strlen(line) + 1 > MAX_INSTALL_OUTPUT)
        return;
    (void)buffer_printf(&install->output, "%s\n", line);
    timer_arm(install->timer, STREAM_SILENCE_MILLISECONDS);
    if (install->events.progress)
        install->events.progress(line, install->events.user);
}

static void say_lines(const char *line, void *user)
{
    say(user, line);
}

/* `words`: in the resolver's language, or the installer's. */
static void fail_install(struct install *install, const char *words)
{
    _cleanup_free_ char *error = install_words_for_failure(words);
    install_words_each_line(error, say_lines, install);
    install_words_strip(error);
    finish(install, &(struct install_result){.error = error});
}

/* --- installing --------------------------------------------------------------------------------- */

static json_t *installed_of(const struct install *install)
{
    json_t *list = json_array();
    size_t i;
    const json_t *package;
    json_array_foreach(install->fetched, i, package)
    {
        bool is_new = json_object_get(package, "file") != NULL;
        const char *name = json_string_value(json_object_get(package, "name"));
        if (!is_new && !install_words_asked_for(install->requirements, name))
            continue;
        json_t *entry =
            json_pack("{s:s, s:O}", "name", name, "version", json_object_get(package, "version"));
        if (!is_new)
            (void)json_object_set_new(entry, "already", json_true());
        (void)json_array_append_new(list, entry);
    }
    return list;
}

static void succeed(struct install *install, bool restart)
{
    json_auto_t *installed = installed_of(install);
    finish(install, &(struct install_result){
                        .success = true, .installed = installed, .restart_needed = restart});
}

/* {"code": n, "output": "…", "restart": bool} of the shim, which has it from the sandbox. */
static void installed(const struct shim_answer *answer, void *user)
{
    struct install *install = user;
    if (answer->problem) {
        finish(install, &(struct install_result){.problem = answer->problem,
                                                 .error = answer->problem->detail});
        return;
    }
    json_auto_t *json = answer->length <= MAX_JSON_BODY_BYTES
                            ? json_loadb(answer->body, answer->length, 0, NULL)
                            : NULL;
    const char *output = json_string_value(json_object_get(json, "output"));
    if (json_integer_value(json_object_get(json, "code")) != 0 || !json) {
        fail_install(install, output && *output ? output : "the installer ended unexpectedly");
        return;
    }
    _cleanup_free_ char *line = install_words_success(install->fetched);
    bool restart = json_is_true(json_object_get(json, "restart"));
    say(install, line);
    if (restart)
        say(install, INSTALL_WORDS_RESTART);
    succeed(install, restart);
}

static void put_in_place(struct install *install)
{
    json_auto_t *wheels = json_array();
    size_t i;
    const json_t *package;
    json_array_foreach(install->fetched, i, package)
    {
        const char *file = json_string_value(json_object_get(package, "file"));
        if (file)
            (void)json_array_append_new(
                wheels,
                json_sprintf("%s/%s", json_string_value(json_object_get(package, "sha256")), file));
    }
    if (json_array_size(wheels) == 0) {
        succeed(install, false);
        return;
    }
    uint64_t milliseconds = install->sandbox->service->config->package_seconds * 1000;
    json_auto_t *order =
        json_pack("{s:O, s:I}", "wheels", wheels, "timeout_ms", (json_int_t)milliseconds);
    _cleanup_free_ char *text = json_dumps(order, JSON_COMPACT);
    _cleanup_free_ char *line = install_words_collected(install->fetched);
    say(install, line);
    install->state = INSTALL_INSTALLING;
    struct shim_request request = {.payload = text,
                                   .length = strlen(text),
                                   .callback = installed,
                                   .user = install,
                                   .patience_ms = milliseconds + PATIENCE_MS};
    if (sandbox_call(install->sandbox, SHIM_INSTALL, &request, &install->call) < 0)
        fail_install(install, "the sandbox does not keep up");
}

/* --- fetching ----------------------------------------------------------------------------------- */

static void fetch_says(const char *line, void *user)
{
    say(user, line);
}

/* A package that the operator does not want, though only another one needs it. NULL: there is none. */
static const char *denied(const struct install *install)
{
    const char *deny = install->sandbox->service->config->package_deny;
    size_t i;
    const json_t *package;
    json_array_foreach(install->fetched, i, package)
    {
        const char *name = json_string_value(json_object_get(package, "name"));
        if (json_object_get(package, "file") && package_listed(deny, name))
            return name;
    }
    return NULL;
}

static void fetched(json_t *packages, bool offline, const char *text, void *user)
{
    struct install *install = user;
    install->fetch = NULL;
    if (!packages) {
        fail_install(install, text);
        return;
    }
    install->fetched = json_incref(packages);
    const char *name = denied(install);
    if (name) {
        _cleanup_free_ char *words =
            must_format("%s, which this needs, must not be installed here", name);
        fail_install(install, words);
        return;
    }
    if (offline)
        say(install, INSTALL_WORDS_OFFLINE);
    install_words_satisfied(install->fetched, install->requirements, say_lines, install);
    put_in_place(install);
}

/* Names as the index has them; and of those that are asked for, if they shall be upgraded. */
static json_t *fetch_order(const struct install *install)
{
    json_t *pins = json_array(), *upgrade = json_array();
    size_t i;
    const json_t *entry;
    json_array_foreach(install->listed, i, entry)
    {
        char name[MAX_PACKAGE_NAME + 1];
        const char *text = json_string_value(json_object_get(entry, "name"));
        if (package_name_normal(text, strlen(text), name))
            (void)json_array_append_new(
                pins,
                json_sprintf("%s==%s", name, json_string_value(json_object_get(entry, "version"))));
    }
    json_array_foreach(install->requirements, i, entry)
    {
        char name[MAX_PACKAGE_NAME + 1];
        struct problem ignored;
        if (install->upgrade &&
            requirement_check(json_string_value(entry), json_string_length(entry), name, &ignored))
            (void)json_array_append_new(upgrade, json_string(name));
    }
    return json_pack("{s:O, s:o, s:o, s:b, s:b}", "requirements", install->requirements,
                     "installed", pins, "upgrade", upgrade, "pre", install->pre, "no_deps",
                     install->no_dependencies);
}

static void listed(const struct shim_answer *answer, void *user)
{
    struct install *install = user;
    if (answer->problem) {
        finish(install, &(struct install_result){.problem = answer->problem,
                                                 .error = answer->problem->detail});
        return;
    }
    install->listed = packages_read(answer->body, answer->length);
    if (!install->listed) {
        fail_install(install, "the sandbox cannot say what is installed in it");
        return;
    }
    install_words_collecting(install->listed, install->requirements, say_lines, install);
    install->state = INSTALL_FETCHING;
    json_auto_t *order = fetch_order(install);
    struct fetch_events events = {.progress = fetch_says, .done = fetched, .user = install};
    install->fetch = fetch_begin(install->sandbox->service, order, &events);
}

static void begin(struct install *install)
{
    install->state = INSTALL_LISTING;
    struct shim_request request = {.payload = "",
                                   .callback = listed,
                                   .user = install,
                                   .patience_ms = LIST_SECONDS * 1000 + PATIENCE_MS};
    if (sandbox_call(install->sandbox, SHIM_PACKAGES, &request, &install->call) < 0)
        fail_install(install, "the sandbox does not keep up");
}

static void timer_fired(struct timer *timer, void *user)
{
    struct install *install = user;
    timer_arm(timer, STREAM_SILENCE_MILLISECONDS);
    if (install->state == INSTALL_QUEUED)
        begin(install);
    else if (install->events.silent)
        install->events.silent(install->events.user);
}

/* --- asking for it ------------------------------------------------------------------------------ */

static bool allowed(const struct sandbox *sandbox, const json_t *requirements,
                    struct problem *problem)
{
    const struct config *config = sandbox->service->config;
    size_t i;
    const json_t *entry;
    if (!config->packages) {
        problem_set(problem, PROBLEM_PACKAGES_DISABLED,
                    "Packages cannot be installed here: the operator has switched that off.");
        return false;
    }
    json_array_foreach(requirements, i, entry)
    {
        char name[MAX_PACKAGE_NAME + 1];
        if (!requirement_check(json_string_value(entry), json_string_length(entry), name, problem))
            return false;
        if ((*config->package_allow && !package_listed(config->package_allow, name)) ||
            package_listed(config->package_deny, name)) {
            problem_set(problem, PROBLEM_PACKAGE_NOT_ALLOWED,
                        "%s may not be installed here: the operator's lists of packages say so.",
                        name);
            return false;
        }
    }
    return true;
}

struct install *install_begin(struct sandbox *sandbox, const struct install_order *order,
                              const struct install_events *events, struct problem *problem)
{
    size_t waiting = 0;
    if (!allowed(sandbox, order->requirements, problem))
        return NULL;
    if (!sandbox->packages)
        sandbox->packages = must_alloc(sizeof *sandbox->packages);
    struct install **at = &sandbox->packages->first;
    for (; *at; at = &(*at)->next)
        waiting++;
    if (waiting >= MAX_QUEUED_INSTALLS) {
        problem_set(problem, PROBLEM_QUEUE_FULL,
                    "%d installs wait in this sandbox already. Try again when they are done.",
                    MAX_QUEUED_INSTALLS);
        return NULL;
    }
    struct install *install = must_alloc(sizeof *install);
    *install = (struct install){.sandbox = sandbox,
                                .events = *events,
                                .requirements = json_incref(order->requirements),
                                .upgrade = order->upgrade,
                                .pre = order->pre,
                                .no_dependencies = order->no_dependencies,
                                .output = BUFFER_LIMITED(MAX_INSTALL_OUTPUT + 1)};
    install->timer = timer_add(sandbox->service->loop, timer_fired, install);
    *at = install;
    if (waiting == 0)
        timer_arm(install->timer, 0);
    return install;
}

void install_cancel(struct install *install)
{
    install->events = (struct install_events){0};
    install->wanted_tag = 0;
    if (install->state == INSTALL_INSTALLING)
        return;
    if (install->state == INSTALL_LISTING)
        sandbox_forget_call(install->sandbox, install->call);
    leave(install);
    free_install(install);
}

void packages_end(struct sandbox *sandbox, const struct problem *problem)
{
    struct packages *packages = sandbox->packages;
    while (packages && packages->first) {
        struct install *install = packages->first;
        if (install->state == INSTALL_LISTING || install->state == INSTALL_INSTALLING)
            sandbox_forget_call(sandbox, install->call);
        finish(install, &(struct install_result){.problem = problem, .error = problem->detail});
    }
    for (size_t i = 0; packages && i < packages->failure_count; i++)
        free(packages->failures[i].error);
    free(packages);
    sandbox->packages = NULL;
}

/* --- from inside -------------------------------------------------------------------------------- */

static void tell_inside(struct sandbox *sandbox, enum shim_type type, uint64_t tag,
                        const char *text)
{
    if (sandbox->shim)
        (void)shim_client_reply(sandbox->shim, type, tag, text, strlen(text));
}

static void inside_progress(const char *line, void *user)
{
    struct install *install = user;
    _cleanup_free_ char *text =
        must_format("%c %s\n", starts_with(line, "ERROR: ") ? 'e' : 'o', line);
    tell_inside(install->sandbox, SHIM_SAY, install->wanted_tag, text);
}

static void inside_done(const struct install_result *result, void *user)
{
    struct install *install = user;
    tell_inside(install->sandbox, SHIM_SAID, install->wanted_tag,
                result->success ? "x 0\n" : "x 1\n");
}

static bool read_wanted(const json_t *json, json_t *list, struct problem *problem)
{
    const json_t *given = json_object_get(json, "requirements");
    size_t i;
    const json_t *entry;
    json_array_foreach(given, i, entry)
    {
        if (!json_is_string(entry) ||
            !requirement_add(list, json_string_value(entry), json_string_length(entry), problem))
            return false;
    }
    if (json_array_size(list) == 0)
        problem_set(problem, PROBLEM_INVALID_FIELD, "Nothing to install was named.");
    return json_array_size(list) > 0;
}

void packages_wanted(uint64_t tag, const char *payload, size_t length, void *user)
{
    struct sandbox *sandbox = user;
    json_auto_t *json =
        length <= 8 * MAX_REQUIREMENTS_BYTES ? json_loadb(payload, length, 0, NULL) : NULL;
    json_auto_t *list = json_array();
    struct problem problem;
    struct install *install = NULL;
    if (!sandbox_live(sandbox)) {
        problem_set(&problem, PROBLEM_STARTING, "the sandbox is not ready yet");
    } else if (read_wanted(json, list, &problem)) {
        struct install_order order = {.requirements = list,
                                      .upgrade = json_is_true(json_object_get(json, "upgrade")),
                                      .pre = json_is_true(json_object_get(json, "pre")),
                                      .no_dependencies =
                                          json_is_true(json_object_get(json, "no_deps"))};
        install = install_begin(sandbox, &order, &(struct install_events){0}, &problem);
    }
    if (!install) {
        _cleanup_free_ char *text = must_format("e ERROR: %s\nx 1\n", problem.detail);
        tell_inside(sandbox, SHIM_SAID, tag, text);
        return;
    }
    install->wanted_tag = tag;
    install->events =
        (struct install_events){.progress = inside_progress, .done = inside_done, .user = install};
}

void packages_unwanted(uint64_t tag, void *user)
{
    struct sandbox *sandbox = user;
    for (struct install *install = sandbox->packages ? sandbox->packages->first : NULL; install;
         install = install->next) {
        if (install->wanted_tag == tag && tag) {
            install_cancel(install);
            return;
        }
    }
}

/* --- looking ------------------------------------------------------------------------------------ */

json_t *packages_read(const char *text, size_t length)
{
    json_auto_t *json = length <= MAX_JSON_BODY_BYTES ? json_loadb(text, length, 0, NULL) : NULL;
    const json_t *packages = json_object_get(json, "packages");
    size_t i;
    const json_t *entry;
    if (!json_is_array(packages) || json_array_size(packages) > MAX_INSTALLED_PACKAGES)
        return NULL;
    json_t *list = json_array();
    json_array_foreach(packages, i, entry)
    {
        char normal[MAX_PACKAGE_NAME + 1];
        const char *name = json_string_value(json_object_get(entry, "name"));
        const char *version = json_string_value(json_object_get(entry, "version"));
        if (name && version && package_name_normal(name, strlen(name), normal) &&
            package_version_valid(version))
            (void)json_array_append_new(list,
                                        json_pack("{s:s, s:s}", "name", name, "version", version));
    }
    return list;
}

const char *packages_state(const struct sandbox *sandbox, const char *name, const char **error)
{
    const struct packages *packages = sandbox->packages;
    *error = NULL;
    for (const struct install *install = packages ? packages->first : NULL; install;
         install = install->next) {
        if (install_words_asked_for(install->requirements, name))
            return "installing";
    }
    for (size_t i = 0; packages && i < packages->failure_count; i++) {
        if (!strcmp(packages->failures[i].name, name)) {
            *error = packages->failures[i].error;
            return "failed";
        }
    }
    return NULL;
}
