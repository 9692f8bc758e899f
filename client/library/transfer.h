/* An exchange as curl does it, once: the handle set up, driven, and its outcome in our words. */
#pragma once

#include "library/exchange.h"

/* 0: there is an answer, of any status. */
int transfer_run(struct husk *husk, const struct exchange *exchange, struct answer *answer,
                 struct husk_error *error);
