/* Files on their way in: the body of a PUT, or the files of a form. Each is written to a file without a name that the keeper makes on
 * the sandbox's disk; when the body is complete each gets its name, or, if it is an archive, is unpacked. Until then the sandbox
 * sees nothing of them, and if anything fails or anybody dies, nothing is left of them.
 *
 *   BEGIN ─► (PAUSED: the keeper makes a file ⇄ RECEIVING) ─► placing one after the other ─► answered
 *
 * Belongs to its request (request->own). */
#pragma once

#include <stddef.h>

struct request;

extern const struct body_taker upload_put;  /* PUT /sandbox/{id}/files/{path*} */
extern const struct body_taker upload_form; /* POST /sandbox/{id}/upload */

/* The body is complete: handlers of these routes. */
void route_put_file(struct request *request);
void route_upload(struct request *request);
