#include "command/mcp_local.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/failure.h"
#include "base/fdio.h"
#include "base/media_type.h"
#include "base/memory.h"
#include "base/percent.h"
#include "base/text.h"
#include "command/mcp_bridge.h"
#include "command/mcp_place.h"
#include "command/mcp_web.h"
#include "command/pack.h"

struct local_tool {
    const char *name;
    const char *known[6]; /* arguments */
    const char *instead;  /* of what local_path stands; NULL: of nothing */
    /* Look at the local side; 0 or -errno with a sentence. */
    int (*prepare)(struct local *local, struct failure *why);
    bool takes_out; /* of a sandbox; else something is put into one */
    void (*move)(struct local *local);
    /* It is done: the rest of the result. NULL: that is answered. */
    json_t *(*conclude)(struct local *local, const json_t *answer, struct buffer *text);
};

struct local {
    struct call *call;
    const struct local_tool *tool;
    const json_t *arguments; /* borrowed from the call */
    const char *local_path;  /* likewise */
    char *path;              /* in the sandbox */
    char *sandbox;           /* its id; NULL: not known yet */
    bool named;              /* the caller said which sandbox */
    struct call *question;
    struct transfer *transfer;
    json_t *result; /* of the question: the form of the answer */
    struct pack *pack;
    int file; /* that is sent; -1: none */
    struct place place;
    uint64_t size;  /* in all; 0: not known */
    uint64_t moved; /* so far */
    uint64_t told;  /* of that, to a client that wants to know … */
    uint64_t told_ms;
    long status;      /* of HTTP */
    bool failed_here; /* this side could not read or write: see why */
    struct failure why;
};

void local_free(struct local *local)
{
    if (!local)
        return;
    local->call->bridge->local_count--;
    if (local->question)
        call_free(local->question);
    transfer_cancel(local->transfer);
    json_decref(local->result);
    pack_free(local->pack);
    close_fd(local->file);
    place_close(&local->place);
    free(local->path);
    free(local->sandbox);
    free(local);
}

/* --- answers ------------------------------------------------------------------------------------ */

/* In the form that huskd gave its answer, if it has given one: that has what belongs to the era. */
static void answer(struct call *call, bool is_error, const char *text, json_t *structured)
{
    json_t *result = message_tool_result(call->message.modern, is_error, text, structured);
    if (call->local && call->local->result) {
        json_t *form = json_copy(call->local->result);
        (void)json_object_del(form, "structuredContent");
        (void)json_object_update_new(form, result);
        result = form;
    }
    call_answer(call, message_result(call->message.id, result));
}

_printf_(2, 3) static void refuse(struct call *call, const char *format, ...)
{
    char text[MESSAGE_SENTENCE];
    va_list arguments;
    va_start(arguments, format);
    message_sentence(text, format, arguments);
    va_end(arguments);
    answer(call, true, text, NULL);
}

/* --- moving bytes ------------------------------------------------------------------------------- */

static void tell(void *user, uint64_t done, uint64_t total)
{
    struct local *local = user;
    json_t *token =
        json_object_get(json_object_get(local->call->message.params, "_meta"), "progressToken");
    if (local->pack)
        done = pack_counts(local->pack)->bytes;
    if (local->size)
        total = local->size;
    if (!token || done <= local->told || now_ms() - local->told_ms < PROGRESS_MILLISECONDS)
        return;
    char text[100];
    (void)snprintf(text, sizeof text, "%" PRIu64 " of %" PRIu64 " KiB", done / KIB, total / KIB);
    _cleanup_free_ char *line = message_progress(token, (double)done, (double)total, text);
    if (line && !local->call->cancelled)
        lines_write(&local->call->bridge->lines, line, strlen(line));
    local->told = done;
    local->told_ms = now_ms();
}

static void conclude(void *user, const struct transfer_end *end)
{
    struct local *local = user;
    struct call *call = local->call;
    json_auto_t *json = end->json ? message_parse(end->body, end->length) : NULL;
    const char *detail = json_string_value(json_object_get(json, "detail"));
    local->transfer = NULL;
    if (local->failed_here)
        return refuse(call, "%s", local->why.text);
    if (end->code != CURLE_OK)
        return refuse(call,
                      "The connection to huskd broke while '%.150s' was on its way (%s). Try again "
                      "when huskd runs.",
                      local->local_path, end->why);
    if (end->status != 200 && end->status != 201)
        return refuse(call, "%s", detail ? detail : "huskd refused this.");
    _cleanup_buffer_ struct buffer text = {0};
    local->status = end->status;
    json_t *structured = local->tool->conclude(local, json, &text);
    if (!structured)
        return;
    if (!local->named && !local->tool->takes_out)
        (void)buffer_printf(&text,
                            " This is in the sandbox %s: pass sandbox_id \"%s\" to go on in it.",
                            local->sandbox, local->sandbox);
    answer(call, false, buffer_text(&text), structured);
}

static struct transfer *start_transfer(struct local *local, struct transfer_order order,
                                       const char *route, const char *tail)
{
    _cleanup_buffer_ struct buffer path = {0};
    (void)buffer_append_text(&path, "/sandbox/");
    (void)percent_encode(local->sandbox, "", &path);
    (void)buffer_append_text(&path, route);
    (void)percent_encode(local->path, *tail ? "" : "/", &path);
    (void)buffer_append_text(&path, tail);
    order.path = buffer_text(&path);
    order.progress = tell;
    order.done = conclude;
    order.user = local;
    local->told_ms = now_ms();
    return transfer_start(local->call->bridge->web, &order);
}

/* --- upload_file -------------------------------------------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int open_source(struct local *local, struct stat *status, struct failure *why)
{
    local->file = roots_open_path(&local->call->bridge->roots, local->local_path, why);
    if (local->file < 0)
        return local->file;
    if (fstat(local->file, status) < 0)
        return fail(why, errno, "'%.150s'", local->local_path);
    if (S_ISREG(status->st_mode) && (uint64_t)status->st_size > MAX_UPLOAD_BYTES)
        return fail_plain(why, EFBIG,
                          "'%.150s' has more than 1 GiB, which is the most there can be.",
                          local->local_path);
    local->size = S_ISREG(status->st_mode) ? (uint64_t)status->st_size : 0;
    return 0;
}

static int prepare_upload(struct local *local, struct failure *why)
{
    struct stat status;
    int r = open_source(local, &status, why);
    if (r < 0)
        return r;
    if (!S_ISREG(status.st_mode))
        return fail_plain(why, EISDIR, "'%.150s' is a folder. copy_project copies folders.",
                          local->local_path);
    size_t length = strlen(local->path);
    if (length == 0 || local->path[length - 1] == '/') {
        char *longer = must_format("%s%s", local->path, base_name(local->local_path));
        free(local->path);
        local->path = longer;
    }
    return 0;
}

static ssize_t read_file(void *user, char *data, size_t room)
{
    struct local *local = user;
    uint64_t left = local->size - local->moved;
    ssize_t got = read_some(local->file, data, left < room ? (size_t)left : room);
    if (got < 0 || (got == 0 && left > 0)) {
        local->failed_here = true;
        (void)fail(&local->why, got < 0 ? (int)got : EIO, "'%.150s' changed while it was read",
                   local->local_path);
        return -1;
    }
    local->moved += (uint64_t)got;
    return got;
}

static void move_upload(struct local *local)
{
    struct transfer_order order = {
        .method = "PUT", .source = read_file, .total = (int64_t)local->size};
    local->transfer = start_transfer(local, order, "/files/", "");
}

static json_t *conclude_upload(struct local *local, const json_t *answered, struct buffer *text)
{
    const char *path = json_string_value(json_object_get(answered, "path"));
    if (!path)
        path = local->path;
    bool replaced = local->status == 200;
    (void)buffer_printf(text, "Wrote %" PRIu64 " bytes of %s to %s%s.", local->size,
                        local->local_path, path, replaced ? ", in place of what was there" : "");
    return json_pack("{s:s, s:s, s:I, s:b, s:s}", "sandbox_id", local->sandbox, "path", path,
                     "size", (json_int_t)local->size, "replaced", replaced, "local_path",
                     local->local_path);
}

/* --- copy_project ------------------------------------------------------------------------------- */

/* What tools make again by themselves, or what is the history of a project rather than the project. */
static const char *const ignored[] = {".git",        ".hg",   ".svn",        "node_modules",
                                      "__pycache__", ".venv", ".mypy_cache", ".pytest_cache",
                                      ".ruff_cache", ".tox",  ".husk-*.part"};

static int prepare_copy(struct local *local, struct failure *why)
{
    struct stat status;
    char folder[sizeof "/proc/self/fd/" + 12];
    int r = open_source(local, &status, why);
    if (r < 0 || !S_ISDIR(status.st_mode))
        return r;
    bool all = json_is_true(json_object_get(local->arguments, "include_ignored"));
    (void)snprintf(folder, sizeof folder, "/proc/self/fd/%d", local->file);
    struct pack_order order = {
        .folder = folder, .excludes = ignored, .exclude_count = all ? 0 : ARRAY_LENGTH(ignored)};
    r = pack_new(&order, &local->pack, why);
    if (r == 0)
        local->size = pack_counts(local->pack)->total_bytes;
    return r;
}

static ssize_t read_pack(void *user, char *data, size_t room)
{
    struct local *local = user;
    ssize_t got = pack_read(data, room, local->pack);
    if (got < 0) {
        local->failed_here = true;
        (void)fail_plain(&local->why, EIO, "%s", pack_failure(local->pack));
    }
    return got;
}

static void move_copy(struct local *local)
{
    struct transfer_order order = {.method = "POST",
                                   .source = local->pack ? read_pack : read_file,
                                   .total = local->pack ? -1 : (int64_t)local->size,
                                   .form = true};
    local->transfer = start_transfer(local, order, "/upload?file_path=", "&extract=1");
}

static json_t *conclude_copy(struct local *local, const json_t *answered, struct buffer *text)
{
    const json_t *extracted = json_object_get(answered, "extracted");
    json_int_t entries = json_integer_value(json_object_get(extracted, "entries"));
    json_int_t bytes = json_integer_value(json_object_get(extracted, "bytes"));
    (void)buffer_printf(text,
                        "Copied %lld files and folders, %lld bytes, from %s to /home/user/%s.",
                        (long long)entries, (long long)bytes, local->local_path, local->path);
    const struct pack_counts *counts = local->pack ? pack_counts(local->pack) : NULL;
    if (counts && counts->left_out > 0)
        (void)buffer_printf(text,
                            " Left out: %" PRIu64 " links that lead elsewhere, pipes or devices, "
                            "such as %s.",
                            counts->left_out, counts->first_left_out);
    return json_pack("{s:s, s:s, s:I, s:I, s:s}", "sandbox_id", local->sandbox, "path", local->path,
                     "entries", entries, "bytes", bytes, "local_path", local->local_path);
}

/* --- download_file ------------------------------------------------------------------------------ */

/* Nothing is made on this side before huskd has said that there is such a file. */
static int prepare_download(struct local *local, struct failure *why)
{
    if (!*base_name(local->path))
        return fail_plain(why, EINVAL, "path must name a file, relative to /home/user.");
    return roots_check(&local->call->bridge->roots, local->local_path, why);
}

static bool write_file(void *user, const char *data, size_t length)
{
    struct local *local = user;
    int r = place_write(&local->place, data, length);
    local->moved += length;
    if (r == 0 && local->moved > MAX_UPLOAD_BYTES)
        r = -EFBIG;
    if (r < 0) {
        local->failed_here = true;
        (void)fail(&local->why, r, "'%.150s' cannot be written", local->local_path);
    }
    return r == 0;
}

static void move_download(struct local *local)
{
    const json_t *found = json_object_get(local->result, "structuredContent");
    const char *path = json_string_value(json_object_get(found, "path"));
    local->size = (uint64_t)json_integer_value(json_object_get(found, "size"));
    if (path) {
        free(local->path);
        local->path = must_copy(path);
    }
    if (local->size > MAX_UPLOAD_BYTES)
        return refuse(local->call,
                      "'%.150s' has %" PRIu64
                      " bytes; at most 1 GiB is written this way. `husk get` "
                      "fetches larger ones.",
                      local->path, local->size);
    struct failure why;
    if (place_open(&local->place, &local->call->bridge->roots, local->local_path,
                   base_name(local->path),
                   json_is_true(json_object_get(local->arguments, "overwrite")), &why) < 0)
        return refuse(local->call, "%s", why.text);
    struct transfer_order order = {.method = "GET", .sink = write_file};
    local->transfer = start_transfer(local, order, "/download/", "");
}

static json_t *conclude_download(struct local *local, const json_t *answered _unused_,
                                 struct buffer *text)
{
    struct failure why;
    if (place_finish(&local->place, &why) < 0) {
        refuse(local->call, "%s", why.text);
        return NULL;
    }
    _cleanup_buffer_ struct buffer uri = {0};
    const char *type = media_type(local->path);
    (void)buffer_printf(&uri, "husk://%s/", local->sandbox);
    (void)percent_encode(local->path, "/", &uri);
    (void)buffer_printf(text, "Wrote %" PRIu64 " bytes of %s to %s on the user's machine.",
                        local->moved, local->path, local->local_path);
    return json_pack("{s:s, s:s, s:I, s:o, s:s, s:s}", "sandbox_id", local->sandbox, "path",
                     local->path, "size", (json_int_t)local->moved, "mime_type",
                     json_stringn(type, strcspn(type, ";")), "uri", buffer_text(&uri), "local_path",
                     local->local_path);
}

/* --- which sandbox ------------------------------------------------------------------------------ */

static void asked(void *user, json_t *answered)
{
    struct local *local = user;
    struct call *call = local->call;
    json_t *result = json_object_get(answered, "result");
    const char *id = json_string_value(
        json_object_get(json_object_get(result, "structuredContent"), "sandbox_id"));
    local->question = NULL;
    if (!result) {
        const json_t *error = json_object_get(answered, "error");
        const char *text = json_string_value(json_object_get(error, "message"));
        return call_fail(call, ERROR_INTERNAL, "%s", text ? text : "huskd did not answer.");
    }
    if (json_is_true(json_object_get(result, "isError")) || !id)
        return call_answer(call, message_result(call->message.id, json_incref(result)));
    local->result = json_incref(result);
    local->sandbox = must_copy(id);
    local->tool->move(local);
}

static void ask(struct local *local)
{
    json_t *sandbox = json_object_get(local->arguments, "sandbox_id");
    json_t *arguments = local->tool->takes_out
                            ? json_pack("{s:s, s:i}", "path", local->path, "length", 1)
                            : json_pack("{s:[s]}", "command", "true");
    const char *tool = local->tool->takes_out ? "read_file" : "execute_terminal_command";
    local->named = json_string_length(sandbox) > 0;
    if (sandbox)
        (void)json_object_set(arguments, "sandbox_id", sandbox);
    local->question = bridge_call_tool(local->call, tool, arguments, asked, local);
    bridge_release(local->call->bridge);
}

/* --- arguments ---------------------------------------------------------------------------------- */

static const struct local_tool tools[] = {
    {.name = "upload_file",
     .known = {"path", "local_path", "sandbox_id", "data"},
     .instead = "data",
     .prepare = prepare_upload,
     .move = move_upload,
     .conclude = conclude_upload},
    {.name = "copy_project",
     .known = {"path", "local_path", "sandbox_id", "include_ignored", "archive"},
     .instead = "archive",
     .prepare = prepare_copy,
     .move = move_copy,
     .conclude = conclude_copy},
    {.name = "download_file",
     .known = {"path", "local_path", "sandbox_id", "overwrite"},
     .prepare = prepare_download,
     .takes_out = true,
     .move = move_download,
     .conclude = conclude_download},
};

static const struct local_tool *find_tool(const struct message *message)
{
    const char *name = json_string_value(json_object_get(message->params, "name"));
    for (size_t i = 0; name && i < ARRAY_LENGTH(tools); i++) {
        if (strcmp(tools[i].name, name) == 0)
            return &tools[i];
    }
    return NULL;
}

bool local_wanted(const struct message *message)
{
    const json_t *path =
        json_object_get(json_object_get(message->params, "arguments"), "local_path");
    return message->kind == MESSAGE_REQUEST && message_is(message, "tools/call") && path &&
           !json_is_null(path) && find_tool(message);
}

static bool is_text(const json_t *value)
{
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value);
}

/* A sentence about what is wrong with the arguments; NULL: nothing is. */
static const char *find_fault(const struct local_tool *tool, json_t *arguments, char text[160])
{
    const char *key;
    json_t *value;
    json_object_foreach(arguments, key, value)
    {
        size_t i = 0;
        while (i < ARRAY_LENGTH(tool->known) && tool->known[i] && strcmp(tool->known[i], key) != 0)
            i++;
        bool flag = strcmp(key, "overwrite") == 0 || strcmp(key, "include_ignored") == 0;
        bool wrong = flag ? !json_is_boolean(value) : !is_text(value);
        if (i == ARRAY_LENGTH(tool->known) || !tool->known[i])
            (void)snprintf(text, 160, "%s has no argument %.60s.", tool->name, key);
        else if (json_is_null(value))
            continue;
        else if (tool->instead && strcmp(key, tool->instead) == 0)
            (void)snprintf(text, 160, "Give %s or local_path, not both.", key);
        else if (wrong)
            (void)snprintf(text, 160, "%s must be %s.", key, flag ? "true or false" : "a string");
        else
            continue;
        return text;
    }
    return NULL;
}

/* Relative to the working directory of the sandbox, as huskd says it. */
static char *copy_path(const char *path)
{
    static const char home[] = "/home/user";
    if (path && starts_with(path, home) && (!path[strlen(home)] || path[strlen(home)] == '/'))
        path += strlen(home) + strspn(path + strlen(home), "/");
    return must_copy(path ? path : "");
}

void local_begin(struct call *call)
{
    struct bridge *bridge = call->bridge;
    const struct local_tool *tool = find_tool(&call->message);
    json_t *arguments = json_object_get(call->message.params, "arguments");
    const char *path = json_string_value(json_object_get(arguments, "path"));
    char text[160];
    struct failure why;
    if (find_fault(tool, arguments, text))
        return refuse(call, "%s", text);
    if (bridge->local_count >= MAX_BRIDGE_TRANSFERS)
        return refuse(call, "Too many files are on their way. Try again in a moment.");
    struct local *local = must_alloc(sizeof *local);
    *local =
        (struct local){.call = call,
                       .tool = tool,
                       .arguments = arguments,
                       .local_path = json_string_value(json_object_get(arguments, "local_path")),
                       .path = copy_path(path),
                       .file = -1,
                       .place = {.folder = -1, .file = -1}};
    call->local = local;
    bridge->local_count++;
    if (tool->prepare(local, &why) < 0)
        return refuse(call, "%s", why.text);
    ask(local);
}
