/* What each method of MCP does. */
#pragma once

struct mcp_call;
struct rpc_message;

/* Handle a request that was admitted. It is answered, or waits. */
void method_handle(struct mcp_call *call, const char *method);
