/* Files of sandboxes as resources: husk://{sandbox}/{path}. The keeper opens them (../huskd/keeper_client.h), as for downloads. */
#pragma once

#include "base/id.h"
#include "husk/limits.h"

struct mcp_call;

/* Methods. */
void resources_list(struct mcp_call *call);
void resources_templates(struct mcp_call *call);
void resources_read(struct mcp_call *call);

enum {
    RESOURCE_SANDBOX_SIZE = ID_TEXT_SIZE + MAX_NAME_LENGTH
};

/* "husk://sandbox/path/to" into its parts. NULL: good, or a sentence that says why not. */
const char *resources_split(const char *uri, char sandbox[RESOURCE_SANDBOX_SIZE],
                            char path[MAX_FILE_PATH_BYTES + 1]);
/* There is no such resource: `why` is a sentence. */
void resources_fail(struct mcp_call *call, const char *uri, const char *why);
