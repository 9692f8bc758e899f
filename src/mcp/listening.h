/* `subscriptions/listen`: how clients of the modern era hear of changes. The answer to this request is a stream that says first which
 * of the wanted changes will be told, then tells them; its result comes when huskd ends it. Until then the call waits:
 *
 *     looking at all files ─▶ acknowledged ─▶ telling ─┬─▶ the client leaves: cancelled
 *                                                      └─▶ huskd ends: answered
 *
 * Only files can be listened to: the lists of tools and prompts do not change. */
#pragma once

#include <stdbool.h>

struct mcp;
struct mcp_call;

/* Method. */
void listening_begin(struct mcp_call *call);

/* For subscriptions.c: is it acknowledged, so that something may be told; and the resource has changed. */
bool listening_is_open(const struct mcp_call *call);
void listening_tell(struct mcp_call *call, const char *uri);
/* huskd ends: so do all of them. */
void listening_end_all(struct mcp *mcp);
