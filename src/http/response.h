/* Answers: JSON and problems (RFC 9457). Each ends with request_answer(). */
#pragma once

#include <jansson.h>
#include <stddef.h>

struct problem;
struct request;
struct MHD_Response;

/* Steals `json`; NULL (out of memory) is answered with a problem. */
void answer_json(struct request *request, unsigned status, json_t *json);
/* JSON text as it is; copied. */
void answer_json_text(struct request *request, unsigned status, const char *text, size_t length);
void answer_problem(struct request *request, const struct problem *problem);
/* To a browser that asks whether a page may send a request (CORS): yes. */
void answer_preflight(struct request *request);

/* The body of a problem for a status that libmicrohttpd chose, and its Content-Type: it answers some malformed requests by
 * itself, before there is a struct request. NULL when memory is out. */
struct MHD_Response *response_for_status(unsigned status);
