/* The body of POST /sandbox/create, checked against the operator's limits. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct caller;
struct config;
struct problem;
struct record;

/* `owner`: whose it will be. False with *problem filled in. */
bool create_fields_read(const json_t *body, const struct config *config, const struct caller *owner,
                        struct record *ret, struct problem *problem);
/* "packages" of the body, checked: a new reference, NULL if there are none. */
bool create_fields_packages(const json_t *body, json_t **ret, struct problem *problem);
/* "env" of the body, checked: borrowed, or NULL. */
bool create_fields_env(const json_t *body, json_t **ret, struct problem *problem);
