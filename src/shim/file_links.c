#include "shim/file_links.h"

#include <errno.h>

#include "base/clock.h"
#include "base/media_type.h"
#include "husk/limits.h"
#include "shim/changed_files.h"

int file_links_from_start(const json_t *start, struct id sandbox, struct file_links *ret,
                          struct failure *why)
{
    struct file_links links = {.sandbox = sandbox};
    const json_t *record = json_object_get(start, "record");
    const char *key = json_string_value(json_object_get(record, "link_key"));
    if (!key || link_key_parse(key, &links.key) < 0)
        return fail_plain(why, EINVAL, "the record has no usable link_key");
    links.seconds = json_integer_value(json_object_get(start, "link_seconds"));
    if (links.seconds < 1 || links.seconds > MAX_LINK_SECONDS)
        return fail_plain(why, EINVAL, "there is no usable link_seconds");
    *ret = links;
    return 0;
}

json_t *file_links_entry(const struct file_links *links, const struct changed_file *file)
{
    struct link_target target = {.key = &links->key, .id = links->sandbox, .path = file->path};
    _cleanup_buffer_ struct buffer url = {0};
    if (link_format(&target, wall_seconds() + links->seconds, &url) < 0 || !buffer_text(&url))
        return NULL;
    return json_pack("{s:s, s:I, s:s, s:s%, s:s}", "path", file->path, "size",
                     (json_int_t)file->size, "type", media_type(file->path), "url", url.data,
                     url.length, "change", file->created ? "created" : "changed");
}
