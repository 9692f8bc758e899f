/* libmicrohttpd answers some malformed requests by itself, in HTML. API.md promises problems in JSON, so its call of
 * MHD_queue_response() is caught: the dynamic linker finds our function of that name before the library's. Where it does not
 * (a library linked otherwise), clients get HTML for what is not HTTP, and nothing else changes. */
#pragma once

#include <microhttpd.h>

/* The library's own MHD_queue_response(), for answers of ours. */
enum MHD_Result error_page_pass(struct MHD_Connection *connection, unsigned status,
                                struct MHD_Response *response);
