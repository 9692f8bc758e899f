/* Listing and removing files. */
#include <string.h>

#include "base/attributes.h"
#include "library/answers.h"
#include "library/complaint.h"
#include "library/entries.h"
#include "library/gift.h"
#include "library/path.h"
#include "library/patience.h"

static void read_list(struct reading *reading, const json_t *json, const char *text, void *content)
{
    struct husk_file_list *ret = content;
    if (!json_is_array(json)) {
        (void)reading_fail(reading, "it", "is not a list");
        return;
    }
    ret->files = entries_files(reading, json, &ret->count);
    ret->json = text;
}

int husk_files(struct husk *husk, const char *sandbox, const char *folder, bool recursive,
               struct husk_file_list **ret, struct husk_error *error)
{
    static const struct answer_shape shape = {sizeof(struct husk_file_list), read_list};
    _cleanup_path_ struct path path;
    struct answer answer;
    void *content;
    path_begin(&path, sandbox, "/files?recursive=", error);
    path_add(&path, recursive ? "1" : "0");
    if (folder && *folder) {
        path_add(&path, "&path=");
        path_add_file(&path, folder);
    }
    struct exchange exchange = {
        .method = "GET", .path = path.text.data, .reads = true, .patience = CLIENT_UNPACK_SECONDS};
    int r = path.result < 0 ? path.result : exchange_run(husk, &exchange, &answer, error);
    if (r < 0)
        return r;
    r = answers_read(&answer, &shape, &content, error);
    if (r == 0) {
        *ret = content;
        (*ret)->incomplete = answer.incomplete;
    }
    return r;
}

struct husk_file_list *husk_file_list_free(struct husk_file_list *list)
{
    return gift_free(list);
}

int husk_remove(struct husk *husk, const char *sandbox, const char *path, struct husk_error *error)
{
    _cleanup_path_ struct path route;
    path_begin(&route, sandbox, "/files/", error);
    path_add_file(&route, path);
    if (route.result == 0 && (!path || !*path))
        return complain(error, HUSK_ERROR_ARGUMENT, "Say which file to remove: it is empty.");
    struct exchange exchange = {
        .method = "DELETE", .path = route.text.data, .patience = CLIENT_UNPACK_SECONDS};
    return route.result < 0 ? route.result : exchange_order(husk, &exchange, error);
}
