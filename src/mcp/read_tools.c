/* Reading files: the keeper opens them, as for resources. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/fdio.h"
#include "base/media_type.h"
#include "base/percent.h"
#include "base/quoted.h"
#include "base/text.h"
#include "husk/limits.h"
#include "huskd/json_body.h"
#include "huskd/keeper_client.h"
#include "huskd/problem.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "mcp/mcp.h"
#include "mcp/resources.h"
#include "mcp/tools.h"

/* What of which file. */
struct part {
    char path[MAX_FILE_PATH_BYTES + 1];
    uint64_t offset, length; /* as asked for, then as it is */
    uint64_t size;           /* of the whole file */
    struct buffer bytes;
    bool is_text;
};

static void part_free(struct part *part)
{
    buffer_free(&part->bytes);
}

/* --- opening ------------------------------------------------------------------------------------ */

static bool read_arguments(struct mcp_call *call, const json_t *arguments, struct part *ret)
{
    struct problem problem;
    *ret = (struct part){.length = MAX_TOOL_TEXT_BYTES};
    if (!json_body_whole(arguments, "offset", (struct number_range){0, MAX_MCP_OFFSET},
                         &ret->offset, &problem) ||
        !json_body_whole(arguments, "length", (struct number_range){1, MAX_MCP_READ_BYTES},
                         &ret->length, &problem)) {
        tool_fail_problem(call, &problem);
        return false;
    }
    if (!tool_read_path(call, arguments, "path", ret->path))
        return false;
    if (!*ret->path)
        tool_fail(call, "path is missing: which file, relative to /home/user. list_files shows "
                        "what is there.");
    return *ret->path != '\0';
}

static void fail_open(struct mcp_call *call, const char *path, int error)
{
    if (error == EISDIR)
        tool_fail(call, "'%.150s' is a folder. list_files shows what is in it.", path);
    else if (error == EAGAIN)
        tool_fail(call,
                  "A process in the sandbox keeps '%.150s' for itself. Try again in a moment.",
                  path);
    else
        tool_fail(call,
                  "There is no file '%.150s' in the sandbox. Paths are relative to /home/user, and "
                  "only regular files can be read. list_files shows what is there.",
                  path);
}

static void cancel_open(struct mcp_call *call)
{
    keeper_client_forget(call->mcp->service->keeper, call->tag);
}

static void open_file(struct mcp_call *call, json_t *arguments, keeper_open_callback opened)
{
    struct part part;
    if (!read_arguments(call, arguments, &part) || !tool_find_sandbox(call, arguments, NULL))
        return;
    call->tag =
        keeper_client_open(call->mcp->service->keeper, call->sandbox->id, part.path, opened, call);
    call_wait(call, cancel_open);
}

/* The arguments again, and the size of the file. False: that is answered. */
static bool take_file(struct mcp_call *call, int fd, struct part *ret)
{
    struct stat status;
    if (!tool_sandbox_lives(call) ||
        !read_arguments(call, json_object_get(call->params, "arguments"), ret))
        return false;
    if (fd < 0 || fstat(fd, &status) < 0) {
        fail_open(call, ret->path, fd < 0 ? -fd : errno);
        return false;
    }
    ret->size = (uint64_t)status.st_size;
    return true;
}

static int make_uri(const struct mcp_call *call, const char *path, struct buffer *uri)
{
    int r = buffer_printf(uri, "husk://%s/", call->sandbox_text);
    if (r == 0)
        r = percent_encode(path, "/", uri);
    return r == 0 && buffer_text(uri) ? 0 : -ENOMEM;
}

static int append_text_item(struct buffer *out, const char *text, size_t length)
{
    int r = buffer_append_text(out, "{\"type\":\"text\",\"text\":");
    if (r == 0)
        r = quoted_append(out, text, length);
    return r == 0 ? buffer_append_text(out, "}") : r;
}

static int append_blob_item(struct buffer *out, const char *uri, const struct buffer *bytes)
{
    int r = buffer_append_text(out, "{\"type\":\"resource\",\"resource\":");
    if (r == 0)
        r = resources_append(out, uri, bytes, false);
    return r == 0 ? buffer_append_text(out, "}") : r;
}

static void answer_or_fail(struct mcp_call *call, int r, const struct buffer *members)
{
    if (r == 0)
        call_answer_members(call, members->data, members->length);
    else
        tool_fail(call, "The file cannot be read now. Try again in a moment.");
}

/* --- read_file ---------------------------------------------------------------------------------- */

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* A part may begin and end in the middle of a character: then these bytes are left to the parts beside it. */
static void cut_to_characters(struct part *part)
{
    char *data = part->bytes.data;
    size_t length = part->bytes.length, start = 0;
    bool at_end = part->offset + length >= part->size;
    while (part->offset > 0 && start < length && start < 3 && is_continuation(data[start]))
        start++;
    size_t whole = utf8_prefix(data ? data + start : "", length - start);
    size_t rest = length - start - whole;
    part->is_text = (rest == 0 || (rest < 4 && !at_end && whole > 0)) &&
                    !memchr(data ? data : "", '\0', length);
    if (!part->is_text || !data)
        return;
    memmove(data, data + start, whole);
    part->bytes.length = whole;
    part->offset += start;
}

static int append_read(const struct mcp_call *call, const struct part *part, struct buffer *out)
{
    _cleanup_buffer_ struct buffer uri = {0}, note = {0};
    uint64_t next = part->offset + part->bytes.length;
    bool at_end = next >= part->size;
    int r = make_uri(call, part->path, &uri);
    if (r == 0)
        r = buffer_append_text(out, "\"content\":[");
    if (r == 0)
        r = part->is_text ? append_text_item(out, part->bytes.data, part->bytes.length)
                          : append_blob_item(out, uri.data, &part->bytes);
    if (r == 0)
        r = buffer_printf(&note, "Bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64 "%s.", part->offset,
                          next, part->size, part->is_text ? "" : ", which are not text");
    if (r == 0 && !at_end)
        r = buffer_printf(&note, " Call read_file with offset %" PRIu64 " to go on.", next);
    bool whole = part->is_text && part->offset == 0 && at_end && part->size > 0;
    if (r == 0 && !whole)
        r = buffer_append_text(out, ",");
    if (r == 0 && !whole)
        r = append_text_item(out, note.data, note.length);
    if (r == 0)
        r = buffer_printf(
            out, "],\"structuredContent\":{\"sandbox_id\":\"%s\",\"path\":", call->sandbox_text);
    if (r == 0)
        r = quoted_append(out, part->path, strlen(part->path));
    if (r == 0)
        r = buffer_printf(out,
                          ",\"size\":%" PRIu64 ",\"offset\":%" PRIu64 ",\"length\":%zu,"
                          "\"encoding\":\"%s\",\"end\":%s",
                          part->size, part->offset, part->bytes.length,
                          part->is_text ? "utf-8" : "base64", at_end ? "true" : "false");
    if (r == 0 && part->is_text)
        r = buffer_append_text(out, ",\"text\":");
    if (r == 0 && part->is_text)
        r = quoted_append(out, part->bytes.data, part->bytes.length);
    return r == 0 ? buffer_append_text(out, "},\"isError\":false") : r;
}

static void opened_to_read(int fd, void *user)
{
    _cleanup_close_ int own = fd;
    _cleanup_(part_free) struct part part = {0};
    _cleanup_buffer_ struct buffer members = {0};
    struct mcp_call *call = user;
    if (!take_file(call, own, &part))
        return;
    if (part.offset > part.size)
        return tool_fail(call, "The file has %" PRIu64 " bytes; offset is behind them.", part.size);
    int r = resources_read_part(own, part.offset, (size_t)part.length, &part.bytes);
    if (r == 0) {
        cut_to_characters(&part);
        r = append_read(call, &part, &members);
    }
    answer_or_fail(call, r, &members);
}

static void read_file(struct mcp_call *call, json_t *arguments)
{
    open_file(call, arguments, opened_to_read);
}

/* --- download_file ------------------------------------------------------------------------------ */

static int append_download(const struct mcp_call *call, const struct part *part, struct buffer *out)
{
    _cleanup_buffer_ struct buffer uri = {0}, text = {0};
    const char *type = media_type(part->path);
    int type_length = (int)strcspn(type, ";");
    int r = make_uri(call, part->path, &uri);
    if (r == 0)
        r = buffer_printf(&text, "%s: %zu bytes, %.*s", part->path, part->bytes.length, type_length,
                          type);
    if (r == 0)
        r = buffer_append_text(out, "\"content\":[");
    if (r == 0)
        r = append_text_item(out, text.data, text.length);
    if (r == 0)
        r = buffer_append_text(out, ",");
    if (r == 0)
        r = append_blob_item(out, uri.data, &part->bytes);
    if (r == 0)
        r = buffer_printf(
            out, "],\"structuredContent\":{\"sandbox_id\":\"%s\",\"path\":", call->sandbox_text);
    if (r == 0)
        r = quoted_append(out, part->path, strlen(part->path));
    return r == 0
               ? buffer_printf(
                     out, ",\"size\":%zu,\"mime_type\":\"%.*s\",\"uri\":\"%s\"},\"isError\":false",
                     part->bytes.length, type_length, type, uri.data)
               : r;
}

static void opened_to_download(int fd, void *user)
{
    _cleanup_close_ int own = fd;
    _cleanup_(part_free) struct part part = {0};
    _cleanup_buffer_ struct buffer members = {0};
    struct mcp_call *call = user;
    if (!take_file(call, own, &part))
        return;
    if (part.size > MAX_MCP_RESOURCE_BYTES)
        return tool_fail(
            call,
            "'%.150s' has %" PRIu64 " bytes; at most %d are sent this way. Read parts "
            "of it with read_file, or download it over HTTP: GET /sandbox/%s/download/…",
            part.path, part.size, MAX_MCP_RESOURCE_BYTES, call->sandbox_text);
    int r = resources_read_part(own, 0, (size_t)part.size, &part.bytes);
    if (r == 0)
        r = append_download(call, &part, &members);
    answer_or_fail(call, r, &members);
}

static void download(struct mcp_call *call, json_t *arguments)
{
    open_file(call, arguments, opened_to_download);
}

/* --- how models see them ------------------------------------------------------------------------ */

/* clang-format off */
#define SANDBOX_ID JSON("sandbox_id": {"type": "string", "description": "Id or name of the sandbox. May be left out if you have exactly one."})
#define ANNOTATIONS JSON("annotations": {"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false})

const struct mcp_tool tool_read_file = {
    .name = "read_file",
    .run = read_file,
    .definition = JSON({
        "title": "Read a file",
        "description": "Read a file of a sandbox, or a part of it. Text comes as text, 64 KiB unless length says otherwise, and the answer says with which offset to go on; anything else comes as base64.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file, relative to /home/user."},
                "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "Begin at this byte."},
                "length": {"type": "integer", "minimum": 1, "maximum": 262144, "default": 65536, "description": "Read at most so many bytes."},
                ) SANDBOX_ID JSON(
            },
            "required": ["path"],
            "additionalProperties": false
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "sandbox_id": {"type": "string"},
                "path": {"type": "string"},
                "size": {"type": "integer", "description": "Of the whole file, in bytes."},
                "offset": {"type": "integer"},
                "length": {"type": "integer", "description": "Bytes that were read."},
                "encoding": {"enum": ["utf-8", "base64"], "description": "base64: the data is in content only."},
                "end": {"type": "boolean", "description": "Nothing follows."},
                "text": {"type": "string"}
            },
            "required": ["sandbox_id", "path", "size", "offset", "length", "encoding", "end"]
        },
        ) ANNOTATIONS JSON(
    }),
};

const struct mcp_tool tool_download_file = {
    .name = "download_file",
    .run = download,
    .local = "Leave it out: the bytes are in the answer, as base64.",
    .definition = JSON({
        "title": "Download a file",
        "description": "Get a whole file of a sandbox as base64, of at most 8 MiB, for the user or for another tool. To look at text use read_file.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file, relative to /home/user."},
                ) SANDBOX_ID JSON(
            },
            "required": ["path"],
            "additionalProperties": false
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "sandbox_id": {"type": "string"},
                "path": {"type": "string"},
                "size": {"type": "integer"},
                "mime_type": {"type": "string"},
                "uri": {"type": "string", "description": "Of the resource in content, which has the data."}
            },
            "required": ["sandbox_id", "path", "size", "mime_type", "uri"]
        },
        ) ANNOTATIONS JSON(
    }),
};
/* clang-format on */
