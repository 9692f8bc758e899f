/* Who may ask: API key, Host, Origin, CORS. Pure but for the configuration and the keys it was made from. */
#pragma once

#include <stdbool.h>

struct caller;
struct config;
struct guard;
struct keyring;
struct problem;

/* The headers of a request that matter here; NULL: not sent. */
struct credentials {
    const char *host;
    const char *origin;
    const char *authorization;
    const char *api_key;
};

/* `listen_host` is the address huskd listens on: clients may use it as Host. Copies what it needs; `keyring`
 * is borrowed. */
struct guard *guard_new(const struct config *config, const char *listen_host,
                        const struct keyring *keyring);
struct guard *guard_free(struct guard *guard);

/* Host and Origin: against DNS rebinding and pages of strangers in a local user's browser. */
bool guard_admits(const struct guard *guard, const struct credentials *credentials,
                  struct problem *problem);
/* Whose API key it is; NULL: nobody's, see *problem. Takes the same time however wrong the key is (keyring.h). */
struct caller *guard_caller(const struct guard *guard, const struct credentials *credentials,
                            struct problem *problem);
/* Is this an origin whose pages may read answers? */
bool guard_shares_with(const struct guard *guard, const char *origin);
