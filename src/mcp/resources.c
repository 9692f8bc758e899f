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
#include "huskd/problem.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "huskd/uri.h"
#include "mcp/call.h"
#include "mcp/catalog.h"
#include "mcp/mcp.h"
#include "mcp/tools.h"
#include "mcp/view.h"

static const char scheme[] = "husk://";

/* --- templates ---------------------------------------------------------------------------------- */

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
    _cleanup_buffer_ struct buffer members = {0};
    (void)buffer_printf(&members, "\"resourceTemplates\":[%s%s%s]", template,
                        *mcp_catalog.templates ? "," : "", mcp_catalog.templates);
    call_answer_members(call, members.data, members.length);
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
    struct sandbox *sandbox = view_find(call, call->sandbox_text, &problem);
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
    const struct sandbox *sandbox = view_find(call, reference, &problem);
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
