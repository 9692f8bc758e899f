#include "mcp/resources.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/fdio.h"
#include "base/media_type.h"
#include "base/memory.h"
#include "base/quoted.h"
#include "base/text.h"
#include "husk/limits.h"
#include "huskd/keeper_client.h"
#include "huskd/porter_client.h"
#include "huskd/problem.h"
#include "huskd/registry.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "huskd/uri.h"
#include "mcp/call.h"
#include "mcp/catalog.h"
#include "mcp/listing.h"
#include "mcp/mcp.h"
#include "mcp/session.h"
#include "mcp/tools.h"

static const char scheme[] = "husk://";

/* --- lists -------------------------------------------------------------------------------------- */

static void answer_list(struct mcp_call *call, const char *key, const char *own, const char *more)
{
    _cleanup_buffer_ struct buffer members = {0};
    (void)buffer_printf(&members, "\"%s\":[%s%s%s]", key, own, *own && *more ? "," : "", more);
    call_answer_members(call, members.data, members.length);
}

/* Of the sandboxes that the session made, one after the other. call->own */
struct resource_list {
    struct id sandboxes[MAX_MCP_SESSION_SANDBOXES];
    size_t count, at;
    struct porter_client *porter;
    struct listing listing; /* of the sandbox whose turn it is */
    struct buffer entries;  /* of those before it, on one line */
};

static void list_free(void *own)
{
    struct resource_list *list = own;
    porter_client_free(list->porter);
    listing_free(&list->listing);
    buffer_free(&list->entries);
    free(list);
}

static void cancel_list(struct mcp_call *call)
{
    struct resource_list *list = call->own;
    porter_client_free(TAKE_POINTER(list->porter));
}

static void list_next(struct mcp_call *call);

static void go_on(struct mcp_call *call)
{
    struct resource_list *list = call->own;
    porter_client_free(TAKE_POINTER(list->porter));
    listing_free(&list->listing);
    list->at++;
    list_next(call);
}

/* A sandbox that cannot be listed, or has ended, is left out. */
static void list_refused(int error _unused_, void *user)
{
    go_on(user);
}

static void list_begun(const struct porter_begin *head _unused_, void *user _unused_)
{
}

static void list_data(const char *data, size_t length, void *user)
{
    struct mcp_call *call = user;
    struct resource_list *list = call->own;
    listing_add(&list->listing, data, length);
}

static void list_ended(const struct porter_end *end, void *user)
{
    struct mcp_call *call = user;
    struct resource_list *list = call->own;
    const char *entries;
    size_t length;
    if (end->status == 0 && listing_entries(&list->listing, &entries, &length) && length > 0) {
        if (list->entries.length > 0)
            (void)buffer_append_text(&list->entries, ",");
        (void)listing_append(&list->entries, entries, length);
    }
    go_on(call);
}

static void list_next(struct mcp_call *call)
{
    const struct service *service = call->mcp->service;
    struct resource_list *list = call->own;
    const struct sandbox *sandbox = NULL;
    for (; list->at < list->count && list->entries.length < MAX_MCP_LISTING_BYTES; list->at++) {
        sandbox = registry_find_id(service->registry, list->sandboxes[list->at]);
        if (sandbox && sandbox_live(sandbox))
            break;
        sandbox = NULL;
    }
    if (!sandbox) {
        const char *own = list->entries.length ? buffer_text(&list->entries) : "";
        return answer_list(call, "resources", own ? own : "", mcp_catalog.resources);
    }
    struct porter_task task = {.sandbox = sandbox->id,
                               .job = PORTER_LIST,
                               .flags = PORTER_WHOLE_HOME | PORTER_RESOURCES,
                               .folder = ".",
                               .path = sandbox->text,
                               .archive = -1};
    struct porter_events events = {.refused = list_refused,
                                   .begun = list_begun,
                                   .data = list_data,
                                   .ended = list_ended,
                                   .user = call};
    list->listing = (struct listing){.limit = MAX_MCP_LISTING_BYTES};
    list->porter = porter_client_new(service->loop, service->keeper, &task, &events);
}

/* Of callers of whom nothing is remembered there is nothing to list: they know addresses, or ask list_files. */
void resources_list(struct mcp_call *call)
{
    size_t count = call->session ? session_sandboxes(call->session, call->mcp->service) : 0;
    if (count == 0)
        return answer_list(call, "resources", "", mcp_catalog.resources);
    struct resource_list *list = must_alloc(sizeof *list);
    memcpy(list->sandboxes, call->session->sandboxes, count * sizeof *list->sandboxes);
    list->count = count;
    call->own = list;
    call->own_free = list_free;
    call_wait(call, cancel_list);
    list_next(call);
}

/* clang-format off */
static const char template[] = JSON({
    "uriTemplate": "husk://{sandbox}/{+path}",
    "name": "sandbox_file",
    "title": "A file of a sandbox",
    "description": "A file below the working directory of a sandbox. sandbox: its id or name; path: relative to /home/user."
});
/* clang-format on */

void resources_templates(struct mcp_call *call)
{
    answer_list(call, "resourceTemplates", template, mcp_catalog.templates);
}

/* --- addresses ---------------------------------------------------------------------------------- */

void resources_fail(struct mcp_call *call, const char *uri, const char *why)
{
    call_fail(call, 200, call->era == MCP_MODERN ? RPC_INVALID_PARAMS : RPC_RESOURCE_NOT_FOUND,
              json_pack("{s:s}", "uri", uri), "%s", why);
}

const char *resources_split(const char *uri, char sandbox[RESOURCE_SANDBOX_SIZE],
                            char path[MAX_FILE_PATH_BYTES + 1])
{
    if (!starts_with(uri, scheme))
        return "Resources here are files of sandboxes: husk://{sandbox}/{path}.";
    const char *authority = uri + strlen(scheme);
    const char *slash = strchr(authority, '/');
    if (!slash || !slash[1])
        return "The address names no file: husk://{sandbox}/{path}.";
    if (uri_decode(authority, (size_t)(slash - authority), sandbox, RESOURCE_SANDBOX_SIZE) < 0 ||
        uri_decode(slash + 1, strlen(slash + 1), path, MAX_FILE_PATH_BYTES + 1) < 0)
        return "The address is too long or not well-formed.";
    return NULL;
}

/* --- reading ------------------------------------------------------------------------------------ */

static bool is_text_type(const char *type)
{
    static const char *const more[] = {"application/json", "application/xml",
                                       "application/javascript", "image/svg+xml"};
    if (starts_with(type, "text/"))
        return true;
    for (size_t i = 0; i < ARRAY_LENGTH(more); i++) {
        if (starts_with(type, more[i]))
            return true;
    }
    return false;
}

static const char *requested_uri(const struct mcp_call *call)
{
    return json_string_value(json_object_get(call->params, "uri"));
}

static int append_base64(struct buffer *out, const struct buffer *bytes)
{
    size_t size = sodium_base64_ENCODED_LEN(bytes->length, sodium_base64_VARIANT_ORIGINAL);
    char *place = buffer_reserve(out, size);
    if (!place)
        return -ENOMEM;
    (void)sodium_bin2base64(place, size, (const unsigned char *)(bytes->data ? bytes->data : ""),
                            bytes->length, sodium_base64_VARIANT_ORIGINAL);
    buffer_grow(out, size - 1); /* it ends with a NUL */
    return 0;
}

int resources_append(struct buffer *out, const char *uri, const struct buffer *bytes, bool as_text)
{
    const char *type = media_type(uri);
    int r = buffer_append_text(out, "{\"uri\":");
    if (r == 0)
        r = quoted_append(out, uri, strlen(uri));
    if (r == 0)
        r = buffer_printf(out, ",\"mimeType\":\"%.*s\",", (int)strcspn(type, ";"), type);
    if (r == 0)
        r = buffer_append_text(out, as_text ? "\"text\":" : "\"blob\":\"");
    if (r == 0)
        r = as_text ? quoted_append(out, bytes->data, bytes->length) : append_base64(out, bytes);
    return r == 0 ? buffer_append_text(out, as_text ? "}" : "\"}") : r;
}

static int encode(const char *uri, const struct buffer *bytes, struct buffer *out)
{
    bool text =
        is_text_type(media_type(uri)) && utf8_valid(bytes->data ? bytes->data : "", bytes->length);
    int r = buffer_append_text(out, "\"contents\":[");
    if (r == 0)
        r = resources_append(out, uri, bytes, text);
    return r == 0 ? buffer_append_text(out, "]") : r;
}

/* All of a file as it is now: 0 or -errno, -EFBIG when it is too large. */
static int read_whole(int fd, struct buffer *ret)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    if (status.st_size > MAX_MCP_RESOURCE_BYTES)
        return -EFBIG;
    return resources_read_part(fd, 0, (size_t)status.st_size, ret);
}

int resources_read_part(int fd, uint64_t offset, size_t length, struct buffer *ret)
{
    while (ret->length < length) {
        char *place = buffer_reserve(ret, length - ret->length);
        if (!place)
            return -ENOMEM;
        ssize_t got = read_at(fd, place, length - ret->length, offset + ret->length);
        if (got <= 0)
            return got < 0 ? (int)got : 0; /* it became shorter */
        buffer_grow(ret, (size_t)got);
    }
    return 0;
}

static void answer_file(struct mcp_call *call, const char *uri, int fd)
{
    _cleanup_buffer_ struct buffer bytes = {0};
    _cleanup_buffer_ struct buffer members = {0};
    int r = read_whole(fd, &bytes);
    if (r == 0)
        r = encode(uri, &bytes, &members);
    if (r == -EFBIG)
        call_fail(call, 200, RPC_INVALID_PARAMS, json_pack("{s:s}", "uri", uri),
                  "The file is larger than %d MiB: download it over HTTP, or read parts of it with "
                  "code.",
                  MAX_MCP_RESOURCE_BYTES / MIB);
    else if (r < 0)
        call_fail(call, 200, RPC_INTERNAL_ERROR, NULL, "The file cannot be read now.");
    else
        call_answer_members(call, members.data, members.length);
}

static void opened(int fd, void *user)
{
    _cleanup_close_ int own = fd;
    struct mcp_call *call = user;
    struct problem problem;
    const char *uri = requested_uri(call);
    struct sandbox *sandbox =
        service_find(call->mcp->service, call->caller, call->sandbox_text, &problem);
    if (!sandbox)
        return resources_fail(call, uri, problem.detail);
    if (own < 0)
        return resources_fail(
            call, uri,
            "There is no such file in the sandbox. Paths are relative to /home/user, and "
            "only regular files can be read.");
    sandbox_used(sandbox);
    answer_file(call, uri, own);
}

static void cancel_open(struct mcp_call *call)
{
    keeper_client_forget(call->mcp->service->keeper, call->tag);
}

static void read_file(struct mcp_call *call, const char *uri)
{
    struct service *service = call->mcp->service;
    struct problem problem;
    char reference[RESOURCE_SANDBOX_SIZE], path[MAX_FILE_PATH_BYTES + 1];
    const char *fault = resources_split(uri, reference, path);
    if (fault)
        return resources_fail(call, uri, fault);
    const struct sandbox *sandbox = service_find(service, call->caller, reference, &problem);
    if (!sandbox)
        return resources_fail(call, uri, problem.detail);
    memcpy(call->sandbox_text, sandbox->text, sizeof call->sandbox_text);
    call->tag = keeper_client_open(service->keeper, sandbox->id, path, opened, call);
    call_wait(call, cancel_open);
}

void resources_read(struct mcp_call *call)
{
    const json_t *uri = json_object_get(call->params, "uri");
    const char *text = json_string_value(uri);
    if (!text || strlen(text) != json_string_length(uri))
        return call_fail(call, 200, RPC_INVALID_PARAMS, NULL, "params.uri must be a string.");
    if (!mcp_catalog.read_resource(call, text))
        read_file(call, text);
}
