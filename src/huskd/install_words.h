/* What an install says: the words of pip, because people and models know them. Pure. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#define INSTALL_WORDS_RESTART                                                                      \
    "Note: a package that the kernel has imported was replaced; restart the kernel to use the "    \
    "new "                                                                                         \
    "version."
#define INSTALL_WORDS_OFFLINE                                                                      \
    "WARNING: the package index cannot be reached; using what was fetched before."

typedef void (*install_line)(const char *line, void *user);

/* Is it one of the requirements? `name` as PEP 503 has it. */
bool install_words_asked_for(const json_t *requirements, const char *name);
/* "Collecting x" for each requirement that names something that is not there. */
void install_words_collecting(const json_t *listed, const json_t *requirements, install_line line,
                              void *user);
/* "Requirement already satisfied: x" */
void install_words_satisfied(const json_t *fetched, const json_t *requirements, install_line line,
                             void *user);
/* "Installing collected packages: a, b" and "Successfully installed a-1 b-2". free(). */
char *install_words_collected(const json_t *fetched);
char *install_words_success(const json_t *fetched);
/* Why it failed, from what resolver or installer said: lines that begin with "ERROR: ". free(). */
char *install_words_for_failure(const char *words);
/* Without "ERROR: " in front of its lines. In place. */
void install_words_strip(char *text);
void install_words_each_line(const char *text, install_line line, void *user);
