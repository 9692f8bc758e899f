/* Sandboxes: made, looked at, extended, closed. And the health of the service. */
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "husk/limits.h"
#include "library/answers.h"
#include "library/complaint.h"
#include "library/gift.h"
#include "library/order.h"
#include "library/path.h"
#include "library/patience.h"

/* --- reading ------------------------------------------------------------------------------------ */

static void read_limits(struct reading *reading, const json_t *limits, struct husk_sandbox *ret)
{
    ret->memory_mb = reading_number(reading, limits, "memory_mb");
    ret->pids = reading_number(reading, limits, "pids");
    ret->disk_mb = reading_number(reading, limits, "disk_mb");
    ret->cpus = reading_real(reading, limits, "cpus");
}

static void read_usage(struct reading *reading, const json_t *usage, struct husk_sandbox *ret)
{
    ret->has_usage = usage != NULL;
    ret->memory_bytes = reading_number(reading, usage, "memory_bytes");
    ret->used_pids = reading_number(reading, usage, "pids");
    ret->disk_bytes = reading_number(reading, usage, "disk_bytes");
    ret->cpu_seconds = reading_real(reading, usage, "cpu_seconds");
}

static void read_sandbox(struct reading *reading, const json_t *json, const char *text,
                         void *content)
{
    struct husk_sandbox *ret = content;
    if (!reading_is_object(reading, json, "a sandbox"))
        return;
    *ret = (struct husk_sandbox){
        .id = reading_required_text(reading, json, "sandbox_id"),
        .name = reading_text(reading, json, "name", ""),
        .state = reading_text(reading, json, "state", ""),
        .created_at = reading_text(reading, json, "created_at", ""),
        .expires_at = reading_text(reading, json, "expires_at", ""),
        .idle_seconds = reading_number(reading, json, "idle_seconds"),
        .execution_count = reading_number(reading, json, "execution_count"),
        .queued = reading_number(reading, json, "queued"),
        .commands = reading_number(reading, json, "commands"),
        .json = text,
    };
    read_limits(reading, reading_object(reading, json, "limits"), ret);
    read_usage(reading, reading_object(reading, json, "usage"), ret);
}

static int by_age(const void *a, const void *b)
{
    const struct husk_sandbox *one = *(struct husk_sandbox *const *)a,
                              *other = *(struct husk_sandbox *const *)b;
    int order = strcmp(one->created_at, other->created_at);
    /* Entries of one array: of one second, in the order of the service. */
    return order ? order : (one > other) - (one < other);
}

static void read_list(struct reading *reading, const json_t *json, const char *text, void *content)
{
    struct husk_sandbox_list *ret = content;
    if (!reading_is_object(reading, json, "it"))
        return;
    size_t count = json_object_size(json), i = 0;
    struct husk_sandbox *all = reading_array(reading, count, sizeof *all);
    struct husk_sandbox **pointers = reading_array(reading, count, sizeof *pointers);
    const char *id;
    const json_t *entry;
    json_object_foreach((json_t *)(uintptr_t)json, id, entry)
    {
        if (reading->result < 0)
            return;
        read_sandbox(reading, entry, reading_dump(reading, entry).data, &all[i]);
        pointers[i] = &all[i];
        i++;
    }
    if (reading->result == 0)
        qsort(pointers, i, sizeof *pointers, by_age);
    *ret = (struct husk_sandbox_list){.sandboxes = pointers, .count = i, .json = text};
}

static const struct answer_shape one = {sizeof(struct husk_sandbox), read_sandbox};

struct husk_sandbox *husk_sandbox_free(struct husk_sandbox *sandbox)
{
    return gift_free(sandbox);
}

struct husk_sandbox_list *husk_sandbox_list_free(struct husk_sandbox_list *list)
{
    return gift_free(list);
}

/* --- calls -------------------------------------------------------------------------------------- */

static int write_create(const struct husk_create *wanted, char **ret, struct husk_error *error)
{
    struct order order;
    order_begin(&order, error);
    order_put_text(&order, "name", wanted->name);
    order_put_number(&order, "ttl_seconds", wanted->ttl_seconds);
    order_put_number(&order, "idle_seconds", wanted->idle_seconds);
    order_put_number(&order, "memory_mb", wanted->memory_mb);
    order_put_number(&order, "pids", wanted->pids);
    order_put_number(&order, "disk_mb", wanted->disk_mb);
    order_put_real(&order, "cpus", wanted->cpus);
    order_put_variables(&order, wanted->variables, wanted->variable_count);
    order_put_list(&order, "packages", wanted->packages, wanted->package_count);
    order_put_flag(&order, "auto_install", wanted->auto_install);
    return order_text(&order, ret);
}

int husk_create(struct husk *husk, const struct husk_create *wanted, struct husk_sandbox **ret,
                struct husk_error *error)
{
    static const struct husk_create anything;
    _cleanup_free_ char *body = NULL;
    void *content;
    if (!wanted)
        wanted = &anything;
    int r = write_create(wanted, &body, error);
    if (r < 0)
        return r;
    struct exchange exchange = {.method = "POST",
                                .path = "/sandbox/create",
                                .body = body,
                                .patience = wanted->package_count ? patience_of_service()
                                                                  : CLIENT_SLOW_SECONDS};
    r = answers_get(husk, &exchange, &one, &content, error);
    if (r == 0)
        *ret = content;
    return r;
}

int husk_info(struct husk *husk, const char *sandbox, struct husk_sandbox **ret,
              struct husk_error *error)
{
    _cleanup_path_ struct path path;
    void *content;
    path_begin(&path, sandbox, "", error);
    struct exchange exchange = {.method = "GET", .path = path.text.data, .reads = true};
    int r = path.result < 0 ? path.result : answers_get(husk, &exchange, &one, &content, error);
    if (r == 0)
        *ret = content;
    return r;
}

int husk_list(struct husk *husk, struct husk_sandbox_list **ret, struct husk_error *error)
{
    static const struct answer_shape all = {sizeof(struct husk_sandbox_list), read_list};
    struct exchange exchange = {.method = "GET", .path = "/sandboxes", .reads = true};
    void *content;
    int r = answers_get(husk, &exchange, &all, &content, error);
    if (r == 0)
        *ret = content;
    return r;
}

int husk_extend(struct husk *husk, const char *sandbox, uint64_t ttl_seconds,
                struct husk_error *error)
{
    _cleanup_path_ struct path path;
    _cleanup_free_ char *body = NULL;
    struct order order;
    path_begin(&path, sandbox, "/extend", error);
    if (path.result < 0)
        return path.result;
    order_begin(&order, error);
    order_put_number(&order, "ttl_seconds", ttl_seconds);
    int r = order_text(&order, &body);
    if (r < 0)
        return r;
    struct exchange exchange = {.method = "POST", .path = path.text.data, .body = body};
    return exchange_order(husk, &exchange, error);
}

int husk_close(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    _cleanup_path_ struct path path;
    path_begin(&path, sandbox, "/close", error);
    struct exchange exchange = {
        .method = "POST", .path = path.text.data, .body = "{}", .patience = CLIENT_SLOW_SECONDS};
    return path.result < 0 ? path.result : exchange_order(husk, &exchange, error);
}

/* --- health ------------------------------------------------------------------------------------- */

static const char *join_reasons(struct reading *reading, const json_t *list)
{
    _cleanup_buffer_ struct buffer text = {0};
    size_t i;
    const json_t *reason;
    int r = 0;
    json_array_foreach(list, i, reason)
    {
        if (!json_is_string(reason)) {
            (void)reading_fail(reading, "an entry of reasons", "is not a text");
            return "";
        }
        if (r == 0 && i > 0)
            r = buffer_append_text(&text, "\n");
        if (r == 0)
            r = buffer_append_text(&text, json_string_value(reason));
    }
    if (i == 0)
        return "";
    const char *taken = r == 0 ? gift_take(reading->gift, buffer_take(&text)) : NULL;
    if (!taken)
        (void)reading_fail_memory(reading);
    return taken ? taken : "";
}

static void read_health(struct reading *reading, const json_t *json, const char *text,
                        void *content)
{
    struct husk_health *ret = content;
    if (!reading_is_object(reading, json, "it"))
        return;
    const char *status = reading_required_text(reading, json, "status");
    const json_t *sandboxes = reading_object(reading, json, "sandboxes");
    *ret = (struct husk_health){
        .healthy = !strcmp(status, "healthy"),
        .version = reading_text(reading, json, "version", ""),
        .uptime_seconds = reading_number(reading, json, "uptime_seconds"),
        .live = reading_number(reading, sandboxes, "live"),
        .warm = reading_number(reading, sandboxes, "warm"),
        .creating = reading_number(reading, sandboxes, "creating"),
        .maximum = reading_number(reading, sandboxes, "maximum"),
        .json = text,
    };
    ret->reasons = join_reasons(reading, reading_list(reading, json, "reasons"));
    if (!ret->healthy && strcmp(status, "unhealthy") != 0)
        (void)reading_fail(reading, "the field 'status'", "is neither healthy nor unhealthy");
}

/* Not repeated: it tells how things are now. */
int husk_health(struct husk *husk, struct husk_health **ret, struct husk_error *error)
{
    static const struct answer_shape shape = {sizeof(struct husk_health), read_health};
    struct exchange exchange = {.method = "GET", .path = "/health", .also_503 = true};
    void *content;
    int r = answers_get(husk, &exchange, &shape, &content, error);
    if (r == 0)
        *ret = content;
    return r;
}

struct husk_health *husk_health_free(struct husk_health *health)
{
    return gift_free(health);
}
