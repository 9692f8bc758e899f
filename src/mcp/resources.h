/* Files of sandboxes as resources: husk://{sandbox}/{path}. The keeper opens them (../huskd/keeper_client.h), as for downloads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/id.h"
#include "husk/limits.h"

struct mcp_call;

/* Methods. */
void resources_templates(struct mcp_call *call);
void resources_read(struct mcp_call *call);

enum {
    RESOURCE_SANDBOX_SIZE = ID_TEXT_SIZE + MAX_NAME_LENGTH
};

/* "husk://sandbox/path/to" into its parts. NULL: good, or a sentence that says why not. */
const char *resources_split(const char *uri, char sandbox[RESOURCE_SANDBOX_SIZE],
                            char path[MAX_FILE_PATH_BYTES + 1]);
/* Append the object of a resource's contents: uri, mimeType, and text or blob. 0 or -errno. */
int resources_append(struct buffer *out, const char *uri, const struct buffer *bytes, bool as_text);
/* Up to `length` bytes of a file into `ret`, which is empty; fewer at its end. 0 or -errno. */
int resources_read_part(int fd, uint64_t offset, size_t length, struct buffer *ret);
/* There is no such resource: `why` is a sentence. */
void resources_fail(struct mcp_call *call, const char *uri, const char *why);
