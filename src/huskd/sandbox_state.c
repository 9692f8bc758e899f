#include "huskd/sandbox_state.h"

#include "base/failure.h"
#include "base/log.h"
#include "huskd/sandbox.h"

static const char *const state_names[] = {
    [SANDBOX_QUEUED] = "queued",
    [SANDBOX_CREATING] = "creating",
    [SANDBOX_STARTING] = "starting",
    [SANDBOX_ADOPTING] = "adopting",
    [SANDBOX_WARM] = "warm",
    [SANDBOX_ADAPTING] = "adapting",
    [SANDBOX_READY] = "ready",
    [SANDBOX_BUSY] = "busy",
    [SANDBOX_RESTARTING] = "restarting",
    [SANDBOX_CLOSING] = "closing",
    [SANDBOX_GONE] = "gone",
};

#define TO(state) (1u << SANDBOX_##state)
static const unsigned allowed[] = {
    [SANDBOX_QUEUED] = TO(CREATING) | TO(CLOSING),
    [SANDBOX_CREATING] = TO(STARTING) | TO(CLOSING),
    [SANDBOX_STARTING] = TO(WARM) | TO(READY) | TO(BUSY) | TO(CLOSING),
    [SANDBOX_ADOPTING] = TO(WARM) | TO(READY) | TO(BUSY) | TO(RESTARTING) | TO(CLOSING),
    [SANDBOX_WARM] = TO(ADAPTING) | TO(READY) | TO(CLOSING),
    [SANDBOX_ADAPTING] = TO(WARM) | TO(READY) | TO(CLOSING),
    [SANDBOX_READY] = TO(BUSY) | TO(RESTARTING) | TO(CLOSING),
    [SANDBOX_BUSY] = TO(READY) | TO(RESTARTING) | TO(CLOSING),
    [SANDBOX_RESTARTING] = TO(READY) | TO(BUSY) | TO(CLOSING),
    [SANDBOX_CLOSING] = TO(GONE),
    [SANDBOX_GONE] = 0,
};

void sandbox_set_state(struct sandbox *sandbox, enum sandbox_state to)
{
    husk_assert(allowed[sandbox->state] & (1u << to));
    log_event(LOG_DEBUG, "sandbox state", "sandbox", sandbox->text, "from",
              state_names[sandbox->state], "to", state_names[to], NULL);
    sandbox->state = to;
}

bool sandbox_live(const struct sandbox *sandbox)
{
    return sandbox->state == SANDBOX_READY || sandbox->state == SANDBOX_BUSY ||
           sandbox->state == SANDBOX_RESTARTING;
}

const char *sandbox_state_name(const struct sandbox *sandbox)
{
    return state_names[sandbox->state];
}
