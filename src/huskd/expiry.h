/* When sandboxes end by themselves, and the hourly look for what has no owner. */
#pragma once

#include <stdint.h>

struct sandbox;
struct service;

/* Milliseconds until the sandbox's time is over or it has been idle for too long; 0: now. May be short of the real
 * time by design (never more than a day), so whoever waited asks again. `up`: up_seconds(); `now`: now_ms(). */
uint64_t expiry_left_ms(const struct sandbox *sandbox, int64_t up, uint64_t now);

/* Compare what the keeper has with what the registry has, now and then every hour: what only the keeper knows is removed,
 * what only the registry knows is dead. */
void expiry_sweep(struct service *service);
