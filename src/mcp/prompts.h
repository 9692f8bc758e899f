/* Prompts: texts that explain the tools to a model; and completion of what users type into them and into addresses. */
#pragma once

struct mcp_call;

/* Methods. */
void prompts_list(struct mcp_call *call);
void prompts_get(struct mcp_call *call);
void completion_complete(struct mcp_call *call);
