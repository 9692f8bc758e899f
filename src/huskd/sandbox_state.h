/* The states of a sandbox (the picture is in sandbox.h), and which may follow which. */
#pragma once

#include <stdbool.h>

struct sandbox;

enum sandbox_state {
    SANDBOX_QUEUED,
    SANDBOX_CREATING,
    SANDBOX_STARTING,
    SANDBOX_ADOPTING,
    SANDBOX_WARM,
    SANDBOX_ADAPTING,
    SANDBOX_READY,
    SANDBOX_BUSY,
    SANDBOX_RESTARTING,
    SANDBOX_CLOSING,
    SANDBOX_GONE
};

/* For sandbox.c and handover.c alone: asserts that it may, and logs it. */
void sandbox_set_state(struct sandbox *sandbox, enum sandbox_state to);
/* May be used: READY, BUSY or RESTARTING. */
bool sandbox_live(const struct sandbox *sandbox);
/* "ready", "busy", … as API.md has it. */
const char *sandbox_state_name(const struct sandbox *sandbox);
