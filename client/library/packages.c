/* Packages: installed, and what is installed. */
#include <string.h>

#include "base/attributes.h"
#include "library/complaint.h"
#include "library/events.h"
#include "library/gift.h"
#include "library/order.h"
#include "library/path.h"
#include "library/patience.h"

/* --- reading ------------------------------------------------------------------------------------ */

static void read_package(struct reading *reading, const json_t *entry, struct husk_package *ret)
{
    if (!reading_is_object(reading, entry, "a package"))
        return;
    *ret = (struct husk_package){.name = reading_required_text(reading, entry, "name"),
                                 .version = reading_text(reading, entry, "version", ""),
                                 .status = reading_text(reading, entry, "status", "installed"),
                                 .error = reading_text(reading, entry, "error", "")};
}

static const struct husk_package *read_packages(struct reading *reading, const json_t *list,
                                                size_t *ret_count)
{
    size_t count = json_array_size(list);
    struct husk_package *packages = reading_array(reading, count, sizeof *packages);
    for (size_t i = 0; i < count && reading->result == 0; i++)
        read_package(reading, json_array_get(list, i), &packages[i]);
    *ret_count = reading->result == 0 ? count : 0;
    return packages;
}

static void read_list(struct reading *reading, const json_t *json, const char *text, void *content)
{
    struct husk_package_list *ret = content;
    if (!json_is_array(json)) {
        (void)reading_fail(reading, "it", "is not a list");
        return;
    }
    ret->packages = read_packages(reading, json, &ret->count);
    ret->json = text;
}

static void read_one(struct reading *reading, const json_t *json, const char *text, void *content)
{
    struct husk_package_list *ret = content;
    struct husk_package *package = reading_array(reading, 1, sizeof *package);
    if (package)
        read_package(reading, json, package);
    *ret = (struct husk_package_list){.packages = package, .count = 1, .json = text};
}

static void read_installed(struct reading *reading, const json_t *json, const char *text,
                           void *content)
{
    struct husk_installed *ret = content;
    if (!reading_is_object(reading, json, "it"))
        return;
    *ret = (struct husk_installed){
        .success = !strcmp(reading_required_text(reading, json, "status"), "success"),
        .output = "",
        .error = reading_text(reading, json, "error", ""),
        .restart_needed = reading_flag(reading, json, "restart_needed"),
        .json = text};
    ret->packages = read_packages(reading, reading_list(reading, json, "installed"), &ret->count);
}

struct husk_package_list *husk_package_list_free(struct husk_package_list *list)
{
    return gift_free(list);
}

struct husk_installed *husk_installed_free(struct husk_installed *installed)
{
    return gift_free(installed);
}

/* --- calls -------------------------------------------------------------------------------------- */

static int write_install(const struct husk_install *install, char **ret, struct husk_error *error)
{
    struct order order;
    if (!install || (!install->package_count && !install->requirements))
        return complain(error, HUSK_ERROR_ARGUMENT,
                        "Say what to install: packages or requirements.");
    order_begin(&order, error);
    order_put_list(&order, "packages", install->packages, install->package_count);
    order_put_text(&order, "requirements", install->requirements);
    order_put_flag(&order, "upgrade", install->upgrade);
    order_put_flag(&order, "pre", install->pre);
    return order_text(&order, ret);
}

/* Always as a stream, which is never silent for long: so a service that hangs is noticed, however long installs may take. */
int husk_install(struct husk *husk, const char *sandbox, const struct husk_install *order,
                 husk_on_event on_event, void *user, struct husk_installed **ret,
                 struct husk_error *error)
{
    static const struct answer_shape shape = {sizeof(struct husk_installed), read_installed};
    _cleanup_path_ struct path path;
    _cleanup_free_ char *body = NULL;
    struct events_note note;
    void *content = NULL;
    path_begin(&path, sandbox, "/install", error);
    if (path.result < 0)
        return path.result;
    int r = write_install(order, &body, error);
    if (r < 0)
        return r;
    struct exchange exchange = {.method = "POST", .path = path.text.data, .body = body};
    struct events_call call = {.on_event = on_event, .user = user, .shape = &shape};
    r = events_run(husk, &exchange, &call, &note, &content, error);
    if (r == 0) {
        struct husk_installed *installed = content;
        const char *lines = gift_take(content, buffer_take(&note.lines));
        installed->output = lines ? lines : "";
        *ret = installed;
    }
    events_note_free(&note);
    return r;
}

static int get_list(struct husk *husk, const struct path *path, const struct answer_shape *shape,
                    struct husk_package_list **ret, struct husk_error *error)
{
    void *content;
    /* An install that runs is waited for. */
    struct exchange exchange = {
        .method = "GET", .path = path->text.data, .reads = true, .patience = patience_of_service()};
    int r = path->result < 0 ? path->result : answers_get(husk, &exchange, shape, &content, error);
    if (r == 0)
        *ret = content;
    return r;
}

int husk_packages(struct husk *husk, const char *sandbox, struct husk_package_list **ret,
                  struct husk_error *error)
{
    static const struct answer_shape shape = {sizeof(struct husk_package_list), read_list};
    _cleanup_path_ struct path path;
    path_begin(&path, sandbox, "/packages", error);
    return get_list(husk, &path, &shape, ret, error);
}

int husk_package(struct husk *husk, const char *sandbox, const char *name,
                 struct husk_package_list **ret, struct husk_error *error)
{
    static const struct answer_shape shape = {sizeof(struct husk_package_list), read_one};
    _cleanup_path_ struct path path;
    path_begin(&path, sandbox, "/packages/", error);
    path_add_name(&path, name, "package");
    return get_list(husk, &path, &shape, ret, error);
}
