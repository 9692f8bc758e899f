/* What `husk`, `husk --help` and `husk VERB --help` print. They return the exit status. */
#pragma once

struct verb;

/* NULL: there is none of this name. */
const struct verb *help_find_verb(const char *name);
int help_of_all(void);
int help_of_verb(const char *name);
/* Say that there is no such verb, and which one may have been meant. */
int help_unknown_verb(const char *name);
