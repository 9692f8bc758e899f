/* Writing files. The bytes go into a file without a name on the sandbox's disk, which the keeper makes and then puts into its
 * place, or a porter unpacks (KEEPER_MAKE_FILE, KEEPER_PLACE, PORTER_UNPACK): nobody sees half of it. */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "base/text.h"
#include "husk/limits.h"
#include "huskd/file_problem.h"
#include "huskd/json_body.h"
#include "huskd/keeper_client.h"
#include "huskd/porter_client.h"
#include "huskd/problem.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "mcp/mcp.h"
#include "mcp/tools.h"

/* call->own, from its arguments on. */
struct writing {
    struct service *service;
    char path[MAX_FILE_PATH_BYTES + 1];
    const char *data; /* borrowed from the arguments, or from `decoded` */
    size_t length;
    struct buffer decoded;
    bool unpack;
    bool counted; /* among service->uploads */
    int fd;       /* -1: not there yet, or given away */
    struct porter_client *porter;
};

static void writing_free(void *own)
{
    struct writing *writing = own;
    porter_client_free(writing->porter);
    close_fd(writing->fd);
    buffer_free(&writing->decoded);
    if (writing->counted)
        writing->service->uploads--;
    free(writing);
}

static void cancel_writing(struct mcp_call *call)
{
    struct writing *writing = call->own;
    if (call->tag)
        keeper_client_forget(writing->service->keeper, call->tag);
    porter_client_free(TAKE_POINTER(writing->porter));
}

static void fail_errno(struct mcp_call *call, int error)
{
    const struct writing *writing = call->own;
    struct problem problem;
    if (error == EISDIR)
        return tool_fail(call, "'%.150s' is a folder. Give the path of a file.", writing->path);
    file_problem(&problem, *writing->path ? writing->path : ".", error);
    tool_fail_problem(call, &problem);
}

/* --- to its place ------------------------------------------------------------------------------- */

static void placed(const struct keeper_message *answer, int fd, void *user)
{
    struct mcp_call *call = user;
    const struct writing *writing = call->own;
    char note[TOOL_NOTE_SIZE];
    close_fd(fd);
    call->tag = 0;
    if (!tool_sandbox_lives(call))
        return;
    if (answer->status < 0)
        return fail_errno(call, -answer->status);
    bool replaced = answer->flags & KEEPER_REPLACED;
    tool_answer(call,
                json_pack("{s:s, s:s, s:I, s:b}", "sandbox_id", call->sandbox_text, "path",
                          writing->path, "size", (json_int_t)writing->length, "replaced", replaced),
                "Wrote %zu bytes to %s%s.%s", writing->length, writing->path,
                replaced ? ", in place of what was there" : "", tool_note(call, note));
}

static void unpacked(const struct porter_end *end, void *user)
{
    struct mcp_call *call = user;
    const struct writing *writing = call->own;
    struct problem problem;
    char note[TOOL_NOTE_SIZE];
    if (!tool_sandbox_lives(call))
        return;
    if (end->status < 0) {
        file_problem_said(&problem, -end->status, end->text);
        return tool_fail_problem(call, &problem);
    }
    tool_answer(call,
                json_pack("{s:s, s:s, s:I, s:I}", "sandbox_id", call->sandbox_text, "path",
                          writing->path, "entries", (json_int_t)end->entries, "bytes",
                          (json_int_t)end->bytes),
                "Unpacked %u files and folders, %llu bytes, into /home/user%s%s.%s", end->entries,
                (unsigned long long)end->bytes, *writing->path ? "/" : "", writing->path,
                tool_note(call, note));
}

static void unpack_refused(int error, void *user)
{
    if (tool_sandbox_lives(user))
        fail_errno(user, error);
}

static void unpack(struct mcp_call *call)
{
    struct writing *writing = call->own;
    struct porter_task task = {.sandbox = call->sandbox->id,
                               .job = PORTER_UNPACK,
                               .folder = ".",
                               .path = writing->path,
                               .archive = writing->fd};
    struct porter_events events = {.refused = unpack_refused, .ended = unpacked, .user = call};
    writing->porter =
        porter_client_new(writing->service->loop, writing->service->keeper, &task, &events);
}

static void place(struct mcp_call *call)
{
    struct writing *writing = call->own;
    struct keeper_message question = {.type = KEEPER_PLACE};
    memcpy(question.id, call->sandbox->id.bytes, sizeof question.id);
    call->tag = keeper_client_ask_file(writing->service->keeper, &question, writing->path,
                                       TAKE_DESCRIPTOR(writing->fd), placed, call);
}

/* Writing to a tmpfs does not block. */
static void file_made(const struct keeper_message *answer, int fd, void *user)
{
    struct mcp_call *call = user;
    struct writing *writing = call->own;
    call->tag = 0;
    writing->fd = fd;
    if (!tool_sandbox_lives(call))
        return;
    if (fd < 0)
        return fail_errno(call, answer->status < 0 ? -answer->status : EPROTO);
    int r = write_all(fd, writing->data, writing->length);
    if (r < 0)
        return fail_errno(call, -r);
    if (writing->unpack)
        unpack(call);
    else
        place(call);
}

static void start(struct mcp_call *call)
{
    struct writing *writing = call->own;
    struct keeper_message question = {.type = KEEPER_MAKE_FILE};
    if (writing->service->uploads >= MAX_OPEN_UPLOADS)
        return tool_fail(call, "Too many files are being written at the same time. Try again in a "
                               "moment.");
    writing->service->uploads++;
    writing->counted = true;
    memcpy(question.id, call->sandbox->id.bytes, sizeof question.id);
    call->tag =
        keeper_client_ask_file(writing->service->keeper, &question, NULL, -1, file_made, call);
    call_wait(call, cancel_writing);
}

/* --- arguments ---------------------------------------------------------------------------------- */

/* Into `decoded`: false, it is none. */
static bool decode(struct writing *writing, const char *text, size_t length)
{
    size_t most = length / 4 * 3 + 3, decoded = 0;
    const char *end = NULL;
    char *place = buffer_reserve(&writing->decoded, most);
    if (!place || sodium_base642bin((unsigned char *)place, most, text, length, " \t\r\n", &decoded,
                                    &end, sodium_base64_VARIANT_ORIGINAL) < 0)
        return false;
    buffer_grow(&writing->decoded, decoded);
    writing->data = writing->decoded.data;
    writing->length = decoded;
    return end == text + length;
}

/* The bytes that `key` holds. False: that is answered. */
static bool read_bytes(struct mcp_call *call, const json_t *arguments, const char *key, bool base64)
{
    struct writing *writing = call->own;
    struct problem problem;
    writing->data = NULL;
    if (!json_body_text(arguments, key, &writing->data, &writing->length, &problem)) {
        tool_fail_problem(call, &problem);
        return false;
    }
    if (!writing->data) {
        tool_fail(call, "%s is missing: %s.", key, base64 ? "the bytes, as base64" : "the text");
        return false;
    }
    if (base64 && !decode(writing, writing->data, writing->length)) {
        tool_fail(call, "%s is not base64. To write text as it is there is write_file.", key);
        return false;
    }
    if (writing->length > MAX_MCP_RESOURCE_BYTES) {
        tool_fail(call,
                  "%s has %zu bytes; at most %d are taken this way. Upload it over HTTP, or write "
                  "it in parts with code.",
                  key, writing->length, MAX_MCP_RESOURCE_BYTES);
        return false;
    }
    return true;
}

static bool ends_with_slash(const json_t *arguments)
{
    const char *text = json_string_value(json_object_get(arguments, "path"));
    return text && *text && text[strlen(text) - 1] == '/';
}

static void begin(struct mcp_call *call, const json_t *arguments, const char *key, bool base64,
                  bool is_archive)
{
    struct writing *writing = must_alloc(sizeof *writing);
    *writing = (struct writing){.service = call->mcp->service, .unpack = is_archive, .fd = -1};
    call->own = writing;
    call->own_free = writing_free;
    if (!tool_read_path(call, arguments, "path", writing->path))
        return;
    if (!is_archive && (!*writing->path || ends_with_slash(arguments)))
        return tool_fail(call, "path must name a file, relative to /home/user, such as "
                               "data/table.csv. Missing folders are made.");
    if (read_bytes(call, arguments, key, base64))
        tool_with_sandbox(call, arguments, start);
}

static void write_file(struct mcp_call *call, json_t *arguments)
{
    begin(call, arguments, "content", false, false);
}

static void upload(struct mcp_call *call, json_t *arguments)
{
    begin(call, arguments, "data", true, false);
}

static void copy_project(struct mcp_call *call, json_t *arguments)
{
    begin(call, arguments, "archive", true, true);
}

/* --- how models see them ------------------------------------------------------------------------ */

/* clang-format off */
#define SANDBOX_ID JSON("sandbox_id": {"type": "string", "description": "Id or name of the sandbox. May be left out if you have exactly one, or none yet."})
#define WRITTEN JSON({"type": "object", "properties": {"sandbox_id": {"type": "string"}, "path": {"type": "string"}, "size": {"type": "integer"}, "replaced": {"type": "boolean", "description": "There was a file of this name."}}, "required": ["sandbox_id", "path", "size", "replaced"]})
#define ANNOTATIONS JSON("annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": true, "openWorldHint": false})

const struct mcp_tool tool_write_file = {
    .name = "write_file",
    .run = write_file,
    .definition = JSON({
        "title": "Write a file",
        "description": "Write a text to a file of a sandbox, in place of what is there. Missing folders are made. Without sandbox_id a sandbox is made and named in the answer.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file, relative to /home/user."},
                "content": {"type": "string", "description": "All of its text."},
                ) SANDBOX_ID JSON(
            },
            "required": ["path", "content"],
            "additionalProperties": false
        },
        "outputSchema":) WRITTEN JSON(,
        ) ANNOTATIONS JSON(
    }),
};

const struct mcp_tool tool_upload_file = {
    .name = "upload_file",
    .run = upload,
    .local = "Pass the bytes as base64 in data.",
    .definition = JSON({
        "title": "Upload a file",
        "description": "Write a file of any kind to a sandbox, given as base64, of at most 8 MiB, in place of what is there. For text use write_file. Without sandbox_id a sandbox is made and named in the answer.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file, relative to /home/user. Missing folders are made."},
                "data": {"type": "string", "contentEncoding": "base64", "description": "Its bytes, as base64."},
                ) SANDBOX_ID JSON(
            },
            "required": ["path", "data"],
            "additionalProperties": false
        },
        "outputSchema":) WRITTEN JSON(,
        ) ANNOTATIONS JSON(
    }),
};

const struct mcp_tool tool_copy_project = {
    .name = "copy_project",
    .run = copy_project,
    .local = "Pass a zip or tar of the folder as base64 in archive.",
    .definition = JSON({
        "title": "Copy a project into a sandbox",
        "description": "Unpack an archive (zip, or tar, also compressed), given as base64, of at most 8 MiB, into the working directory of a sandbox or a folder of it. Files of the same names are replaced. All of it is unpacked, or nothing. Without sandbox_id a sandbox is made and named in the answer.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "archive": {"type": "string", "contentEncoding": "base64", "description": "The archive's bytes, as base64."},
                "path": {"type": "string", "description": "The folder, relative to /home/user. Left out: that itself."},
                ) SANDBOX_ID JSON(
            },
            "required": ["archive"],
            "additionalProperties": false
        },
        "outputSchema": {
            "type": "object",
            "properties": {"sandbox_id": {"type": "string"}, "path": {"type": "string"}, "entries": {"type": "integer"}, "bytes": {"type": "integer"}},
            "required": ["sandbox_id", "path", "entries", "bytes"]
        },
        ) ANNOTATIONS JSON(
    }),
};
/* clang-format on */
