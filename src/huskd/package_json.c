#include "huskd/package_json.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "husk/limits.h"
#include "huskd/packages.h"
#include "huskd/requirement.h"

json_t *package_result_json(const struct install_result *result)
{
    json_t *json = json_pack(
        "{s:s, s:o, s:s, s:s?, s:b}", "status", result->success ? "success" : "failed", "installed",
        result->installed ? json_incref(result->installed) : json_array(), "output", result->output,
        "error", result->error, "restart_needed", result->restart_needed);
    if (json && !result->error)
        (void)json_object_set_new(json, "error", json_null());
    if (json && result->restart_needed)
        (void)json_object_set_new(
            json, "message",
            json_string("A package that the kernel has imported was replaced: restart the kernel "
                        "(POST …/restart) to use the new version."));
    return json;
}

static int by_name(const void *a, const void *b)
{
    const json_t *const *one = a, *const *other = b;
    return strcasecmp(json_string_value(json_object_get(*one, "name")),
                      json_string_value(json_object_get(*other, "name")));
}

json_t *package_list_sorted(json_t *list)
{
    size_t count = json_array_size(list);
    json_t **entries = calloc(count + 1, sizeof *entries);
    json_t *result = json_array();
    for (size_t i = 0; entries && i < count; i++)
        entries[i] = json_array_get(list, i);
    if (entries)
        qsort(entries, count, sizeof(json_t *), by_name);
    for (size_t i = 0; entries && i < count; i++)
        (void)json_array_append(result, entries[i]);
    free(entries);
    return result;
}

static const char *version_of(const json_t *list, const char *name)
{
    size_t i;
    const json_t *entry;
    json_array_foreach(list, i, entry)
    {
        char normal[MAX_PACKAGE_NAME + 1];
        const char *text = json_string_value(json_object_get(entry, "name"));
        if (package_name_normal(text, strlen(text), normal) && !strcmp(normal, name))
            return json_string_value(json_object_get(entry, "version"));
    }
    return NULL;
}

/* While it is being installed a list would have to wait for that. */
json_t *package_state_json(const struct sandbox *sandbox, const char *name, const json_t *list)
{
    const char *error = NULL, *state = packages_state(sandbox, name, &error);
    if (!list && (!state || strcmp(state, "installing") != 0))
        return NULL;
    const char *version = list ? version_of(list, name) : NULL;
    if (!state || (version && strcmp(state, "failed") == 0))
        state = version ? "installed" : "not_installed";
    return json_pack("{s:s, s:s, s:o, s:o}", "name", name, "status", state, "version",
                     version ? json_string(version) : json_null(), "error",
                     error ? json_string(error) : json_null());
}
