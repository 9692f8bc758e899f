/* What may be asked of an index: "name[extra]>=1,<2 ; marker" (PEP 508 without addresses), and nothing else. Anything that names a
 * place (URLs, paths, "name @ …") or tells the installer what to do (options) is refused. Pure. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "husk/limits.h"

struct problem;

/* `text` is one, spaces around it aside. Its name, as PEP 503 writes it, into `name`. False with a sentence in *problem. */
bool requirement_check(const char *text, size_t length, char name[MAX_PACKAGE_NAME + 1],
                       struct problem *problem);
/* A requirements.txt: its requirements are added to `list`. Comments and empty lines are fine. */
bool requirements_parse(const char *text, size_t length, json_t *list, struct problem *problem);
/* One that was checked, added to `list`. */
bool requirement_add(json_t *list, const char *text, size_t length, struct problem *problem);

/* A name as PEP 503 writes it: lower case, words with a single '-' between them. False: it is no name. */
bool package_name_normal(const char *text, size_t length, char name[MAX_PACKAGE_NAME + 1]);
bool package_version_valid(const char *text);
/* Is the name in a list of words with commas between them? A word may hold '*'. */
bool package_listed(const char *list, const char *name);
