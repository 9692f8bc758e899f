/* The list of resources: files of sandboxes, in pages. A page has files of as many sandboxes as fit, in the order of the
 * sandboxes' ids and of their paths; a cursor says where the next one begins. Files that come or go between two pages may be
 * missed or listed twice, files that stay are not. */
#pragma once

struct mcp_call;

/* Method. */
void resources_list(struct mcp_call *call);
