/* The table of settings: one line describes a key of husk.conf, its flag and environment variable,
 * its type, range and default, and the help text. Parsing, --help and --print-config all come from
 * it. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "base/failure.h"

struct config;

enum setting_type {
    SETTING_TEXT,
    SETTING_LIST,    /* text: words with commas between them; goes on in further lines of a file */
    SETTING_ADDRESS, /* text: address and port */
    SETTING_SECRET,  /* text; no flag (ps shows flags), never printed */
    SETTING_NUMBER,
    SETTING_REAL,
    SETTING_SWITCH,
    SETTING_CHOICE
};

struct setting {
    const char *section;
    const char *key;
    const char
        *name; /* flag without "--"; the environment variable is HUSK_ and this in upper case */
    enum setting_type type;
    size_t offset; /* in struct config */
    double minimum, maximum;
    const char *standard; /* as text; NULL: depends on user and machine, see config_defaults() */
    const char *const *choices;
    const char *help;
};

extern const struct setting settings[];
extern const size_t settings_count;

const struct setting *setting_by_key(const char *section, const char *key);
const struct setting *setting_by_name(const char *name);
/* "HUSK_MAX_SANDBOXES" for a setting. */
enum {
    SETTING_VARIABLE_SIZE = 64
};
void setting_variable(const struct setting *setting, char text[SETTING_VARIABLE_SIZE]);

/* Parse `value` into its place. 0 or -EINVAL with what would be right ("'x' is not a number from 1
 * to 9"). */
int setting_set(struct config *config, const struct setting *setting, const char *value,
                struct failure *why);
/* More words for a list. */
void setting_add(struct config *config, const struct setting *setting, const char *value);
/* The keys of a section, or the sections if `section` is unknown, for messages. */
void setting_list_keys(const char *section, char *text, size_t size);

void setting_print_help(FILE *out);
void setting_print_config(const struct config *config, FILE *out); /* as a husk.conf */
