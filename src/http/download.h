/* What a download looks like to a client. */
#pragma once

#include "base/id.h"

struct MHD_Response;
struct request;

/* The headers of a file of this name, whatever made it: its type, and that no browser shows it as if it came from here. */
void download_describe(struct MHD_Response *response, const char *path);
/* Send a folder instead, as a tar; the request is waiting. In folder_routes.c. */
void folder_download(struct request *request, struct id sandbox, const char *path);
