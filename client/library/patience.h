/* How long a call may be silent, beyond what the client's owner said. */
#pragma once

#include "husk/limits.h"

enum {
    PATIENCE_BEYOND = 30 /* the time of an execution is the service's business; then it answers */
};

/* For calls whose length only the service knows, since its operator sets it. */
static inline double patience_of_service(void)
{
    return MAX_TIMEOUT_SECONDS + PATIENCE_BEYOND;
}

/* For something that may take `timeout` seconds; 0: the service decides. */
static inline double patience_for(double timeout)
{
    return timeout > 0 ? timeout + PATIENCE_BEYOND : patience_of_service();
}
