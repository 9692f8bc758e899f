#include "porter/list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/media_type.h"
#include "base/memory.h"
#include "base/percent.h"
#include "base/quoted.h"
#include "base/text.h"
#include "porter/tree.h"

enum {
    FIRST_CAPACITY = 1024
};

struct listed {
    char *path;
    uint64_t size;
    int64_t modified;
    mode_t mode;
};

struct list {
    struct listed *files;
    size_t count, capacity;
    bool folders;        /* are listed, too */
    const char *sandbox; /* its id: they are listed as resources; NULL: as files */
    bool incomplete;
};

static void list_free(struct list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->files[i].path);
    free(list->files);
}

static bool make_room(struct list *list)
{
    if (list->count < list->capacity)
        return true;
    size_t capacity = list->capacity ? list->capacity * 2 : FIRST_CAPACITY;
    struct listed *files = reallocarray(list->files, capacity, sizeof *files);
    if (!files)
        return false;
    list->files = files;
    list->capacity = capacity;
    return true;
}

static bool is_listed(const struct list *list, mode_t mode)
{
    if (list->sandbox)
        return S_ISREG(mode);
    return S_ISREG(mode) || S_ISLNK(mode) || (S_ISDIR(mode) && list->folders);
}

static bool visit(const struct tree_entry *entry, void *user)
{
    struct list *list = user;
    size_t length = strlen(entry->path);
    if (!is_listed(list, entry->status.st_mode))
        return true;
    if (length > MAX_FILE_PATH_BYTES || !utf8_valid(entry->path, length)) {
        list->incomplete = true;
        return true;
    }
    char *path = list->count < MAX_LISTED_FILES && make_room(list) ? strdup(entry->path) : NULL;
    if (!path) {
        list->incomplete = true;
        return false;
    }
    list->files[list->count++] = (struct listed){.path = path,
                                                 .size = (uint64_t)entry->status.st_size,
                                                 .modified = entry->status.st_mtime,
                                                 .mode = entry->status.st_mode};
    return true;
}

static int by_path(const void *left, const void *right)
{
    return strcmp(((const struct listed *)left)->path, ((const struct listed *)right)->path);
}

static const char *type_of(const struct listed *file)
{
    if (S_ISDIR(file->mode))
        return "inode/directory";
    return S_ISLNK(file->mode) ? "inode/symlink" : media_type(file->path);
}

/* An entry of resources/list. */
static int append_resource(struct buffer *out, const char *sandbox, const struct listed *file)
{
    const char *type = media_type(file->path);
    int r = buffer_printf(out, "{\"uri\":\"husk://%s/", sandbox);
    if (r == 0)
        r = percent_encode(file->path, "/", out);
    if (r == 0)
        r = buffer_append_text(out, "\",\"name\":");
    if (r == 0)
        r = quoted_append(out, file->path, strlen(file->path));
    return r == 0 ? buffer_printf(out, ",\"mimeType\":\"%.*s\",\"size\":%" PRIu64 "}",
                                  (int)strcspn(type, ";"), type, file->size)
                  : r;
}

static int append_file(struct buffer *out, const struct listed *file)
{
    char modified[TIMESTAMP_SIZE];
    format_timestamp(file->modified, modified);
    int r = buffer_append_text(out, "{\"path\":");
    if (r == 0)
        r = quoted_append(out, file->path, strlen(file->path));
    if (r == 0)
        r = buffer_printf(out, ",\"size\":%" PRIu64 ",\"type\":\"%s\",\"modified_at\":\"%s\"}",
                          S_ISREG(file->mode) ? file->size : 0, type_of(file), modified);
    return r;
}

/* In blocks. */
static int send_list(struct reply *reply, const struct list *list)
{
    _cleanup_buffer_ struct buffer out = {0};
    int r = reply_begin(reply, list->incomplete);
    if (r == 0)
        r = buffer_append_text(&out, "[");
    for (size_t i = 0; i < list->count && r == 0; i++) {
        if (i > 0)
            r = buffer_append_text(&out, ",\n");
        if (r == 0)
            r = list->sandbox ? append_resource(&out, list->sandbox, &list->files[i])
                              : append_file(&out, &list->files[i]);
        if (r == 0 && out.length >= PORTER_BLOCK_BYTES / 2) {
            r = reply_data(reply, out.data, out.length);
            buffer_clear(&out);
        }
    }
    if (r == 0)
        r = buffer_append_text(&out, "]\n");
    return r == 0 ? reply_data(reply, out.data, out.length) : r;
}

int list_folder(struct reply *reply, int folder, const struct porter_request *request,
                const char *path, struct porter_end *end, struct failure *why)
{
    const char *sandbox = request->flags & PORTER_RESOURCES ? path : NULL;
    _cleanup_(list_free) struct list list = {.folders = request->flags & PORTER_ONE_LEVEL,
                                             .sandbox = sandbox};
    _cleanup_free_ char *prefix =
        must_format("%s%s", sandbox ? "" : path, *path && !sandbox ? "/" : "");
    struct tree_walk walk = {.prefix = prefix,
                             .one_level = request->flags & PORTER_ONE_LEVEL,
                             .skip_internals = request->flags & PORTER_WHOLE_HOME,
                             .visit = visit,
                             .user = &list};
    int r = tree_walk(&walk, folder);
    if (r < 0)
        return fail(why, r, "The folder cannot be read");
    list.incomplete = list.incomplete || walk.incomplete || walk.too_deep;
    if (list.count > 0)
        qsort(list.files, list.count, sizeof *list.files, by_path);
    end->entries = (uint32_t)list.count;
    r = send_list(reply, &list);
    return r < 0 ? fail(why, r, "The list cannot be sent") : 0;
}
