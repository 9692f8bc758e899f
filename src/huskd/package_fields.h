/* The body of `install`: what to install, in one of four forms, and how. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct problem;

struct package_fields {
    json_t *body;         /* parsed; owned */
    json_t *requirements; /* checked; owned. Empty if they are in a file */
    const char *file; /* "requirements_file": its path below the working directory; NULL: none */
    bool upgrade, pre, wait;
};

/* `body`: an object; a reference is taken. False with *problem filled in. Either way package_fields_free(). */
bool package_fields_read(json_t *body, struct package_fields *ret, struct problem *problem);
void package_fields_free(struct package_fields *fields);
/* A list of requirements, such as "packages" of create: its strings are added to `list`, checked. NULL and null are fine. */
bool package_list_read(const json_t *given, json_t *list, struct problem *problem);
