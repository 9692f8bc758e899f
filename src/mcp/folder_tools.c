/* Listing and removing files: a porter does the work (huskd/porter_client.h). What it lists is finished JSON, with one entry on
 * each line, and is set into the answer unread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "base/quoted.h"
#include "base/text.h"
#include "husk/limits.h"
#include "huskd/file_problem.h"
#include "huskd/json_body.h"
#include "huskd/porter_client.h"
#include "huskd/problem.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "mcp/listing.h"
#include "mcp/mcp.h"
#include "mcp/tools.h"

/* call->own */
struct folder_job {
    struct porter_client *porter;
    struct listing list;
    char path[MAX_FILE_PATH_BYTES + 1];
};

static void job_free(void *own)
{
    struct folder_job *job = own;
    porter_client_free(job->porter);
    listing_free(&job->list);
    free(job);
}

static void cancel_job(struct mcp_call *call)
{
    struct folder_job *job = call->own;
    porter_client_free(TAKE_POINTER(job->porter));
}

static void refused(int error, void *user)
{
    struct mcp_call *call = user;
    const struct folder_job *job = call->own;
    struct problem problem;
    if (!tool_sandbox_lives(call))
        return;
    file_problem(&problem, *job->path ? job->path : ".",
                 error == EXDEV || error == ELOOP || error == ENOTDIR ? ENOENT : error);
    tool_fail_problem(call, &problem);
}

static void fail_said(struct mcp_call *call, const struct porter_end *end)
{
    struct problem problem;
    file_problem_said(&problem, -end->status, end->text);
    tool_fail_problem(call, &problem);
}

static void begin(struct mcp_call *call, const struct porter_task *task, const char *path,
                  const struct porter_events *events)
{
    const struct service *service = call->mcp->service;
    struct folder_job *job = must_alloc(sizeof *job);
    job->list.limit = MAX_MCP_LISTING_BYTES;
    (void)format_text(job->path, sizeof job->path, "%s", path);
    call->own = job;
    call->own_free = job_free;
    call_wait(call, cancel_job);
    job->porter = porter_client_new(service->loop, service->keeper, task, events);
}

/* --- list_files --------------------------------------------------------------------------------- */

static void list_begun(const struct porter_begin *head, void *user)
{
    struct mcp_call *call = user;
    struct folder_job *job = call->own;
    job->list.incomplete = head->incomplete;
}

/* Whatever is too much is left out; the porter is let finish, which is quick. */
static void list_data(const char *data, size_t length, void *user)
{
    struct mcp_call *call = user;
    struct folder_job *job = call->own;
    listing_add(&job->list, data, length);
}

/* As readable as it gets without reading it: a line for each file. */
static int append_text(const struct folder_job *job, const char *entries, size_t length,
                       struct buffer *out)
{
    _cleanup_buffer_ struct buffer text = {0};
    int r = length ? buffer_append(&text, entries, length)
                   : buffer_printf(&text, "There are no files in %s.",
                                   *job->path ? job->path : "/home/user");
    if (r == 0 && job->list.incomplete)
        r = buffer_append_text(&text, "\n… and more: list a folder of it with path, or one level "
                                      "with recursive false.");
    return r == 0 ? quoted_append(out, text.data, text.length) : r;
}

static int append_listing(const struct mcp_call *call, const struct folder_job *job,
                          struct buffer *out)
{
    const char *entries;
    size_t length;
    if (!listing_entries(&job->list, &entries, &length))
        return -EBADMSG;
    int r = buffer_append_text(out, "\"content\":[{\"type\":\"text\",\"text\":");
    if (r == 0)
        r = append_text(job, entries, length, out);
    if (r == 0)
        r = buffer_printf(
            out, "}],\"structuredContent\":{\"sandbox_id\":\"%s\",\"path\":", call->sandbox_text);
    if (r == 0)
        r = quoted_append(out, job->path, strlen(job->path));
    if (r == 0)
        r = buffer_append_text(out, ",\"files\":[");
    if (r == 0)
        r = listing_append(out, entries, length);
    return r == 0 ? buffer_printf(out, "],\"incomplete\":%s},\"isError\":false",
                                  job->list.incomplete ? "true" : "false")
                  : r;
}

static void listed(const struct porter_end *end, void *user)
{
    struct mcp_call *call = user;
    _cleanup_buffer_ struct buffer members = {0};
    if (!tool_sandbox_lives(call))
        return;
    if (end->status < 0)
        return fail_said(call, end);
    if (append_listing(call, call->own, &members) == 0)
        call_answer_members(call, members.data, members.length);
    else
        tool_fail(call, "The files cannot be listed now. Try again in a moment.");
}

static void list(struct mcp_call *call, json_t *arguments)
{
    char path[MAX_FILE_PATH_BYTES + 1];
    struct problem problem;
    bool deep = true;
    if (!json_body_flag(arguments, "recursive", &deep, &problem))
        return tool_fail_problem(call, &problem);
    if (!tool_read_path(call, arguments, "path", path) || !tool_find_sandbox(call, arguments, NULL))
        return;
    struct porter_task task = {.sandbox = call->sandbox->id,
                               .job = PORTER_LIST,
                               .flags =
                                   (deep ? 0 : PORTER_ONE_LEVEL) | (*path ? 0 : PORTER_WHOLE_HOME),
                               .folder = *path ? path : ".",
                               .path = path,
                               .archive = -1};
    begin(call, &task, path,
          &(struct porter_events){.refused = refused,
                                  .begun = list_begun,
                                  .data = list_data,
                                  .ended = listed,
                                  .user = call});
}

/* --- delete_file -------------------------------------------------------------------------------- */

static void removed(const struct porter_end *end, void *user)
{
    struct mcp_call *call = user;
    const struct folder_job *job = call->own;
    if (!tool_sandbox_lives(call))
        return;
    if (end->status < 0)
        return fail_said(call, end);
    tool_answer(call,
                json_pack("{s:s, s:s, s:s}", "sandbox_id", call->sandbox_text, "status", "success",
                          "path", job->path),
                "Removed %s.", job->path);
}

static void delete_file(struct mcp_call *call, json_t *arguments)
{
    char path[MAX_FILE_PATH_BYTES + 1], folder[MAX_FILE_PATH_BYTES + 1] = ".";
    if (!tool_read_path(call, arguments, "path", path))
        return;
    if (!*path)
        return tool_fail(call, "path is missing: the file or folder to remove. The working "
                               "directory itself cannot be removed; close_sandbox does that.");
    if (!tool_find_sandbox(call, arguments, NULL))
        return;
    const char *slash = strrchr(path, '/');
    if (slash)
        (void)format_text(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    struct porter_task task = {.sandbox = call->sandbox->id,
                               .job = PORTER_REMOVE,
                               .folder = folder,
                               .path = slash ? slash + 1 : path,
                               .archive = -1};
    begin(call, &task, path,
          &(struct porter_events){.refused = refused, .ended = removed, .user = call});
}

/* --- how models see them ------------------------------------------------------------------------ */

/* clang-format off */
#define SANDBOX_ID JSON("sandbox_id": {"type": "string", "description": "Id or name of the sandbox. May be left out if you have exactly one."})

const struct mcp_tool tool_list_files = {
    .name = "list_files",
    .run = list,
    .definition = JSON({
        "title": "List files",
        "description": "List the files in the working directory of a sandbox, /home/user, or in a folder of it, with sizes, types and times. If there are very many the list is incomplete and says so.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "A folder, relative to /home/user. Left out: all of it."},
                "recursive": {"type": "boolean", "default": true, "description": "With the files in all folders below; false: one level, with its folders."},
                ) SANDBOX_ID JSON(
            },
            "additionalProperties": false
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "sandbox_id": {"type": "string"},
                "path": {"type": "string"},
                "files": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "path": {"type": "string", "description": "Relative to /home/user."},
                            "size": {"type": "integer"},
                            "type": {"type": "string", "description": "MIME type; inode/directory for a folder."},
                            "modified_at": {"type": "string"}
                        },
                        "required": ["path", "size", "type"]
                    }
                },
                "incomplete": {"type": "boolean"}
            },
            "required": ["sandbox_id", "files", "incomplete"]
        },
        "annotations": {"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false}
    }),
};

const struct mcp_tool tool_delete_file = {
    .name = "delete_file",
    .run = delete_file,
    .definition = JSON({
        "title": "Delete a file",
        "description": "Remove a file of a sandbox, or a folder with everything in it.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "What to remove, relative to /home/user."},
                ) SANDBOX_ID JSON(
            },
            "required": ["path"],
            "additionalProperties": false
        },
        "outputSchema": {
            "type": "object",
            "properties": {"sandbox_id": {"type": "string"}, "status": {"const": "success"}, "path": {"type": "string"}},
            "required": ["sandbox_id", "status", "path"]
        },
        "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": false}
    }),
};
/* clang-format on */
