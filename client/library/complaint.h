/* Filling in a struct husk_error. Every sentence is cut at a whole character and holds no control characters: it may quote
 * what a stranger said, and ends up on terminals. */
#pragma once

#include <stddef.h>

#include "base/attributes.h"
#include "husk.h"

/* Why a call failed; `error` may be NULL. Returns -kind. */
int complain(struct husk_error *error, enum husk_error_kind kind, const char *format, ...)
    _printf_(3, 4);
int complain_memory(struct husk_error *error);

/* An answer with a status that says no: what its body, a problem (RFC 9457), says; or that it is none. `base` is the
 * service's address, for the sentence. Returns -HUSK_ERROR_REFUSED or -HUSK_ERROR_ANSWER. */
struct refusal {
    int status;
    int retry_after;
    const char *body;
    size_t length;
    const char *base;
};
int complain_refusal(struct husk_error *error, const struct refusal *refusal);
