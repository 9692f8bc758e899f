#include "mcp/era.h"

#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/attributes.h"
#include "husk/limits.h"

#define KEY_VERSION      "io.modelcontextprotocol/protocolVersion"
#define KEY_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"

static const char *const legacy_versions[] = {MCP_LATEST_LEGACY, "2025-06-18", "2025-03-26",
                                              "2024-11-05"};

const char *era_legacy_version(const char *version)
{
    for (size_t i = 0; version && i < ARRAY_LENGTH(legacy_versions); i++) {
        if (strcmp(version, legacy_versions[i]) == 0)
            return legacy_versions[i];
    }
    return NULL;
}

const char *era_negotiate(const char *version)
{
    const char *known = era_legacy_version(version);
    return known ? known : MCP_LATEST_LEGACY;
}

/* --- headers ------------------------------------------------------------------------------------ */

struct span {
    const char *text;
    size_t length;
};

static struct span trimmed(const char *header)
{
    const char *text = header + strspn(header, " \t");
    size_t length = strlen(text);
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    return (struct span){text, length};
}

static bool says(const char *header, const char *text)
{
    struct span span = trimmed(header);
    return span.length == strlen(text) && memcmp(span.text, text, span.length) == 0;
}

/* Versions are dates, so they can be compared as text; what is no date and not older is a version that we do not have. */
static bool names_modern(const char *header)
{
    struct span span = trimmed(header);
    char version[32];
    (void)snprintf(version, sizeof version, "%.*s", (int)span.length, span.text);
    return strcmp(version, MCP_MODERN_VERSION) >= 0;
}

/* "=?base64?…?=" stands for text that a header cannot hold. */
static bool names(const char *header, const char *text, size_t length)
{
    static const char prefix[] = "=?base64?", suffix[] = "?=";
    struct span span = trimmed(header);
    size_t marks = strlen(prefix) + strlen(suffix);
    if (span.length < marks || memcmp(span.text, prefix, strlen(prefix)) != 0 ||
        memcmp(span.text + span.length - strlen(suffix), suffix, strlen(suffix)) != 0)
        return span.length == length && memcmp(span.text, text, length) == 0;
    unsigned char decoded[MAX_HEADER_BYTES];
    size_t decoded_length;
    if (sodium_base642bin(decoded, sizeof decoded, span.text + strlen(prefix), span.length - marks,
                          NULL, &decoded_length, NULL, sodium_base64_VARIANT_ORIGINAL) != 0)
        return false;
    return decoded_length == length && memcmp(decoded, text, length) == 0;
}

/* --- refusals ----------------------------------------------------------------------------------- */

_printf_(3, 4) static bool refuse(struct mcp_refusal *refusal, enum rpc_code code,
                                  const char *format, ...)
{
    va_list arguments;
    *refusal = (struct mcp_refusal){.status = 400, .code = code};
    va_start(arguments, format);
    (void)vsnprintf(refusal->text, sizeof refusal->text, format, arguments);
    va_end(arguments);
    return false;
}

/* --- modern ------------------------------------------------------------------------------------- */

/* We log nothing to clients, but a level that is none is their mistake. */
static bool is_log_level(const char *text)
{
    static const char *const levels[] = {"debug", "info",     "notice", "warning",
                                         "error", "critical", "alert",  "emergency"};
    for (size_t i = 0; text && i < ARRAY_LENGTH(levels); i++) {
        if (strcmp(text, levels[i]) == 0)
            return true;
    }
    return false;
}

static bool check_envelope(const struct rpc_message *message, struct mcp_refusal *refusal)
{
    const json_t *level = json_object_get(message->meta, "io.modelcontextprotocol/logLevel");
    if (!json_is_string(json_object_get(message->meta, KEY_VERSION)))
        return refuse(refusal, RPC_INVALID_PARAMS, "_meta." KEY_VERSION " must be a string.");
    if (message->kind == RPC_REQUEST &&
        !json_is_object(json_object_get(message->meta, KEY_CAPABILITIES)))
        return refuse(refusal, RPC_INVALID_PARAMS,
                      "_meta." KEY_CAPABILITIES " must be an object; {} says that there are none.");
    if (level && !is_log_level(json_string_value(level)))
        return refuse(refusal, RPC_INVALID_PARAMS,
                      "_meta.io.modelcontextprotocol/logLevel is not a level of syslog.");
    return true;
}

/* What Mcp-Name has to repeat: a member of params; NULL: this method has no such header. */
static const char *named_member(const char *method)
{
    if (strcmp(method, "tools/call") == 0 || strcmp(method, "prompts/get") == 0)
        return "name";
    return strcmp(method, "resources/read") == 0 ? "uri" : NULL;
}

static bool check_name(const struct rpc_message *message, const struct mcp_headers *headers,
                       struct mcp_refusal *refusal)
{
    const char *member = named_member(message->method);
    const json_t *value = member ? json_object_get(message->params, member) : NULL;
    if (!member)
        return true;
    if (!headers->name)
        return refuse(refusal, RPC_HEADER_MISMATCH, "The header Mcp-Name is missing.");
    if (!json_is_string(value) ||
        !names(headers->name, json_string_value(value), json_string_length(value)))
        return refuse(refusal, RPC_HEADER_MISMATCH,
                      "The header Mcp-Name and params.%s are not the same.", member);
    return true;
}

/* In the order in which the reference implementation looks at them. */
static bool check_modern(const struct rpc_message *message, const struct mcp_headers *headers,
                         struct mcp_refusal *refusal)
{
    if (!check_envelope(message, refusal))
        return false;
    const char *claim = json_string_value(json_object_get(message->meta, KEY_VERSION));
    if (headers->version && !says(headers->version, claim))
        return refuse(refusal, RPC_HEADER_MISMATCH,
                      "The header MCP-Protocol-Version and the version in _meta are not the same.");
    if (headers->method && !says(headers->method, message->method))
        return refuse(refusal, RPC_HEADER_MISMATCH,
                      "The header Mcp-Method and the method are not the same.");
    if (strcmp(claim, MCP_MODERN_VERSION) != 0) {
        (void)refuse(refusal, RPC_UNSUPPORTED_VERSION,
                     "This version of MCP is not served statelessly here.");
        refusal->requested = claim;
        return false;
    }
    if (message->kind == RPC_NOTIFICATION)
        return true;
    if (!headers->version)
        return refuse(refusal, RPC_HEADER_MISMATCH, "The header MCP-Protocol-Version is missing.");
    if (!headers->method)
        return refuse(refusal, RPC_HEADER_MISMATCH, "The header Mcp-Method is missing.");
    return check_name(message, headers, refusal);
}

/* --- which one ---------------------------------------------------------------------------------- */

bool era_claims(const struct rpc_message *message)
{
    return json_object_get(message->meta, KEY_VERSION) != NULL;
}

/* A claim that holds makes even "initialize" a modern request, which has no such method. */
static bool claims_modern(const struct rpc_message *message)
{
    const char *claim = json_string_value(json_object_get(message->meta, KEY_VERSION));
    return claim && strcmp(claim, MCP_MODERN_VERSION) >= 0;
}

static bool check_legacy(const struct rpc_message *message, const struct mcp_headers *headers,
                         struct mcp_refusal *refusal)
{
    bool initializes = strcmp(message->method, "initialize") == 0;
    if (!headers->version || initializes)
        return true;
    char version[16];
    struct span span = trimmed(headers->version);
    (void)snprintf(version, sizeof version, "%.*s", (int)span.length, span.text);
    return era_legacy_version(version)
               ? true
               : refuse(refusal, RPC_REFUSED,
                        "MCP-Protocol-Version must be one of " MCP_MODERN_VERSION
                        ", " MCP_LATEST_LEGACY ", 2025-06-18, 2025-03-26, 2024-11-05.");
}

bool era_judge(const struct rpc_message *message, const struct mcp_headers *headers,
               enum mcp_era *ret, struct mcp_refusal *refusal)
{
    bool modern_header = headers->version && names_modern(headers->version);
    bool initializes = strcmp(message->method, "initialize") == 0;
    *ret = MCP_LEGACY;
    if (headers->handshake)
        return true;
    if (initializes && !claims_modern(message)) {
        if (modern_header)
            return refuse(refusal, RPC_HEADER_MISMATCH,
                          "initialize belongs to versions before " MCP_MODERN_VERSION
                          ", which the header MCP-Protocol-Version names.");
        return true;
    }
    if (era_claims(message)) {
        *ret = MCP_MODERN;
        return check_modern(message, headers, refusal);
    }
    if (modern_header && message->kind == RPC_REQUEST)
        return refuse(refusal, RPC_INVALID_PARAMS, "params._meta has no " KEY_VERSION ".");
    if (modern_header) {
        *ret = MCP_MODERN;
        return true;
    }
    return check_legacy(message, headers, refusal);
}
