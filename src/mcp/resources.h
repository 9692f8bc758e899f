/* Files of sandboxes as resources: husk://{sandbox}/{path}. The keeper opens them (../huskd/keeper_client.h), as for downloads. */
#pragma once

struct mcp_call;

/* Methods. */
void resources_list(struct mcp_call *call);
void resources_templates(struct mcp_call *call);
void resources_read(struct mcp_call *call);

/* There is no such resource: `why` is a sentence. */
void resources_fail(struct mcp_call *call, const char *uri, const char *why);
