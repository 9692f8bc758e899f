/* Installing packages, in front of somebody: what `husk run`, `create` and `install` share. */
#pragma once

#include <stdbool.h>

#include "command/session.h"

/* The exit status. What was installed is said, unless `silent`; what went wrong is said in any case. */
int setup_install(struct session *session, const char *sandbox, const struct husk_install *order,
                  bool silent);
