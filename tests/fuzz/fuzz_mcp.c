/* JSON-RPC messages and the headers they come with: four lines (version, method, name, session; empty: not sent), then the body. */
#include "fuzz.h"

#include "mcp/era.h"
#include "mcp/rpc.h"

static void judge(json_t *json, const struct mcp_headers *headers)
{
    struct rpc_message message = rpc_read(json);
    struct mcp_refusal refusal = {0};
    enum mcp_era era;
    check(message.kind != RPC_INVALID || message.fault);
    check(!message.id || json_is_string(message.id) || json_is_integer(message.id));
    if (message.kind != RPC_REQUEST && message.kind != RPC_NOTIFICATION)
        return;
    check(message.method);
    check(!message.params || json_is_object(message.params));
    if (era_judge(&message, headers, &era, &refusal))
        check(era == MCP_LEGACY || era == MCP_MODERN);
    else
        check(refusal.status >= 400 && refusal.code < 0 && *refusal.text);
    (void)era_claims(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {(const char *)data, size};
    _cleanup_free_ char *version = next_header(&input), *method = next_header(&input);
    _cleanup_free_ char *name = next_header(&input), *session = next_header(&input);
    const struct mcp_headers headers = {
        .version = version, .method = method, .name = name, .session = session};
    const struct mcp_headers handshake = {.handshake = true};
    char fault[RPC_FAULT_SIZE] = "";
    json_auto_t *json = rpc_parse(input.data, input.left, fault);
    check(json || *fault || memory_is_short);
    check(era_negotiate(version ? version : ""));
    if (!json)
        return 0;
    size_t i;
    json_t *element;
    judge(json, &headers);
    judge(json, &handshake);
    json_array_foreach(json, i, element) judge(element, &headers);
    return 0;
}
