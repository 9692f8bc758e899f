/* What is decided about a request when its headers are there: which route, whether this client may, whether the body can be
 * taken. */
#pragma once

#include <stdbool.h>

struct guard;
struct request;

/* True: go on and receive the body. False: the request is answered (a problem, or a preflight's answer). */
bool admission_judge(struct request *request, const struct guard *guard);
/* For a request that is answered: the answer must go out at once, because the body will not end, is too large to be read
 * to its end, or is only sent if we ask for it. */
bool admission_refuses_body(const struct request *request);
