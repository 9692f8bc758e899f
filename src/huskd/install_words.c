#include "huskd/install_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "husk/limits.h"
#include "huskd/problem.h"
#include "huskd/requirement.h"

static bool name_of(const json_t *requirement, char name[MAX_PACKAGE_NAME + 1])
{
    struct problem ignored;
    return requirement_check(json_string_value(requirement), json_string_length(requirement), name,
                             &ignored);
}

static bool has_name(const json_t *packages, const char *wanted)
{
    size_t i;
    const json_t *package;
    json_array_foreach(packages, i, package)
    {
        char name[MAX_PACKAGE_NAME + 1];
        const char *text = json_string_value(json_object_get(package, "name"));
        if (text && package_name_normal(text, strlen(text), name) && !strcmp(name, wanted))
            return true;
    }
    return false;
}

bool install_words_asked_for(const json_t *requirements, const char *wanted)
{
    size_t i;
    const json_t *requirement;
    json_array_foreach(requirements, i, requirement)
    {
        char name[MAX_PACKAGE_NAME + 1];
        if (name_of(requirement, name) && !strcmp(name, wanted))
            return true;
    }
    return false;
}

void install_words_collecting(const json_t *listed, const json_t *requirements, install_line line,
                              void *user)
{
    size_t i;
    const json_t *requirement;
    json_array_foreach(requirements, i, requirement)
    {
        char name[MAX_PACKAGE_NAME + 1], text[MAX_REQUIREMENT_BYTES + 16];
        if (!name_of(requirement, name) || has_name(listed, name))
            continue;
        (void)snprintf(text, sizeof text, "Collecting %s", json_string_value(requirement));
        line(text, user);
    }
}

void install_words_satisfied(const json_t *fetched, const json_t *requirements, install_line line,
                             void *user)
{
    size_t i;
    const json_t *package;
    json_array_foreach(fetched, i, package)
    {
        char text[MAX_PACKAGE_NAME + MAX_PACKAGE_VERSION + 64];
        const char *name = json_string_value(json_object_get(package, "name"));
        if (json_object_get(package, "file") || !install_words_asked_for(requirements, name))
            continue;
        (void)snprintf(text, sizeof text, "Requirement already satisfied: %s (%s)", name,
                       json_string_value(json_object_get(package, "version")));
        line(text, user);
    }
}

static char *list_new(const json_t *fetched, const char *start, const char *between, bool versions)
{
    _cleanup_buffer_ struct buffer text = BUFFER_LIMITED(MAX_INSTALL_OUTPUT);
    size_t i, count = 0;
    const json_t *package;
    (void)buffer_append_text(&text, start);
    json_array_foreach(fetched, i, package)
    {
        if (!json_object_get(package, "file"))
            continue;
        (void)buffer_printf(&text, "%s%s", count++ ? between : "",
                            json_string_value(json_object_get(package, "name")));
        if (versions)
            (void)buffer_printf(&text, "-%s",
                                json_string_value(json_object_get(package, "version")));
    }
    return must_copy(buffer_text(&text));
}

char *install_words_collected(const json_t *fetched)
{
    return list_new(fetched, "Installing collected packages: ", ", ", false);
}

char *install_words_success(const json_t *fetched)
{
    return list_new(fetched, "Successfully installed ", " ", true);
}

/* --- failures ----------------------------------------------------------------------------------- */

/* The word before `phrase`; false: the phrase does not occur. */
static bool word_before(const char *text, const char *phrase, char *word, size_t size)
{
    const char *end = strstr(text, phrase);
    if (!end)
        return false;
    const char *start = end;
    while (start > text && start[-1] != ' ' && start[-1] != '\n')
        start--;
    (void)snprintf(word, size, "%.*s", (int)(end - start), start);
    return true;
}

/* The word after it. */
static bool word_after(const char *text, const char *phrase, char *word, size_t size)
{
    const char *start = strstr(text, phrase);
    if (!start)
        return false;
    start += strlen(phrase);
    (void)snprintf(word, size, "%.*s", (int)strcspn(start, " \n,"), start);
    return true;
}

/* uv's sentence without its labels, in one line. */
static void plain_sentence(const char *words, struct buffer *out)
{
    const char *cause = strstr(words, "cause: ");
    const char *text = cause ? cause + strlen("cause: ") : words;
    if (!strncmp(text, "error: ", 7))
        text += 7;
    const char *hint = strstr(text, "\n\nhint:");
    size_t length = hint ? (size_t)(hint - text) : strlen(text);
    for (size_t i = 0; i < length; i++) {
        bool space = text[i] == '\n' || text[i] == ' ' || text[i] == '\t';
        if (!space)
            (void)buffer_append(out, text + i, 1);
        else if (out->length && out->data[out->length - 1] != ' ')
            (void)buffer_append(out, " ", 1);
    }
    while (out->length && out->data[out->length - 1] == ' ')
        out->length--;
}

/* The last cause says it best. Where the index is is the operator's business. */
static char *unreachable(const char *said)
{
    static const char label[] = "cause: ", address[] = " for url (";
    for (const char *next; (next = strstr(said, label));)
        said = next + strlen(label);
    const char *end = strstr(said, address);
    size_t length = end ? (size_t)(end - said) : strstr(said, "://") ? 0 : strlen(said);
    return must_format("ERROR: The package index cannot be reached, or does not answer as it "
                       "should%s%.*s",
                       length ? ": " : ".", (int)length, said);
}

char *install_words_for_failure(const char *words)
{
    char name[MAX_REQUIREMENT_BYTES] = "";
    _cleanup_buffer_ struct buffer sentence = BUFFER_LIMITED(8 * KIB);
    plain_sentence(words, &sentence);
    const char *said = sentence.length ? buffer_text(&sentence) : "";
    if (strstr(words, "no usable wheels") || strstr(words, "no wheels with a matching") ||
        strstr(words, "there is no wheel of"))
        return must_format("ERROR: No wheel can be installed: %s\n"
                           "ERROR: Only wheels (packages that are already built) are installed "
                           "here, because building one runs its "
                           "code while there is a network. Try another version, or another package "
                           "that has wheels "
                           "for Python 3.13 on Linux.",
                           said);
    if (word_before(words, " was not found in the package registry", name, sizeof name) ||
        word_before(words, " was not found in the cache", name, sizeof name))
        return must_format(
            "ERROR: Could not find a version that satisfies the requirement %s (from "
            "versions: none)\nERROR: No matching distribution found for %s",
            name, name);
    if (word_after(words, "there is no version of ", name, sizeof name) ||
        word_after(words, "available and you require ", name, sizeof name))
        return must_format("ERROR: Could not find a version that satisfies the requirement %s\n"
                           "ERROR: No matching distribution found for %s",
                           name, name);
    if (strstr(words, "No space left on device") || strstr(words, "os error 28"))
        return must_format(
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space "
            "left on device. The sandbox's disk is full (disk_mb).");
    if (strstr(words, "Failed to fetch") || strstr(words, "error sending request"))
        return unreachable(said);
    if (strstr(words, "No solution found"))
        return must_format("ERROR: Cannot install these packages together: %s\nERROR: "
                           "ResolutionImpossible",
                           said);
    return must_format("ERROR: %s", *said ? said : "no reason was given");
}

void install_words_strip(char *text)
{
    static const char label[] = "ERROR: ";
    char *to = text;
    for (const char *from = text; *from;) {
        if ((from == text || from[-1] == '\n') && !strncmp(from, label, strlen(label)))
            from += strlen(label);
        else
            *to++ = *from++;
    }
    *to = '\0';
}

void install_words_each_line(const char *text, install_line line, void *user)
{
    while (*text) {
        size_t length = strcspn(text, "\n");
        _cleanup_free_ char *one = must_format("%.*s", (int)length, text);
        if (*one)
            line(one, user);
        text += length + (text[length] == '\n');
    }
}
