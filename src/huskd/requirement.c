#include "huskd/requirement.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>
#include <strings.h>

#include "base/attributes.h"
#include "base/memory.h"
#include "huskd/problem.h"

/* What is left to read. */
struct text {
    const char *at, *end;
};

static bool is_name_character(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.';
}

static bool is_version_character(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("-_.+!*", c));
}

bool package_name_normal(const char *text, size_t length, char name[MAX_PACKAGE_NAME + 1])
{
    size_t written = 0;
    if (length == 0 || length > MAX_PACKAGE_NAME || !isalnum((unsigned char)text[0]) ||
        !isalnum((unsigned char)text[length - 1]))
        return false;
    for (size_t i = 0; i < length; i++) {
        if (!is_name_character(text[i]))
            return false;
        if (isalnum((unsigned char)text[i]))
            name[written++] = (char)tolower((unsigned char)text[i]);
        else if (name[written - 1] != '-')
            name[written++] = '-';
    }
    name[written] = '\0';
    return true;
}

bool package_version_valid(const char *text)
{
    size_t length = strlen(text);
    if (length == 0 || length > MAX_PACKAGE_VERSION || !isalnum((unsigned char)*text))
        return false;
    for (; *text; text++) {
        if (!is_version_character(*text) || *text == '*')
            return false;
    }
    return true;
}

bool package_listed(const char *list, const char *name)
{
    while (*list) {
        list += strspn(list, ", \t\n");
        size_t length = strcspn(list, ", \t\n");
        char word[MAX_PACKAGE_NAME + 1] = "";
        size_t written = 0;
        if (length > 0 && length <= MAX_PACKAGE_NAME) {
            for (size_t i = 0; i < length; i++) {
                char c = strchr("_.", list[i]) ? '-' : (char)tolower((unsigned char)list[i]);
                if (c != '-' || written == 0 || word[written - 1] != '-')
                    word[written++] = c;
            }
            word[written] = '\0';
            if (fnmatch(word, name, 0) == 0)
                return true;
        }
        list += length;
    }
    return false;
}

/* --- the grammar ------------------------------------------------------------------------------ */

static void skip_spaces(struct text *text)
{
    while (text->at < text->end && (*text->at == ' ' || *text->at == '\t'))
        text->at++;
}

static bool take(struct text *text, char c)
{
    skip_spaces(text);
    if (text->at == text->end || *text->at != c)
        return false;
    text->at++;
    return true;
}

static size_t take_while(struct text *text, bool (*fits)(char))
{
    const char *start = text->at;
    while (text->at < text->end && fits(*text->at))
        text->at++;
    return (size_t)(text->at - start);
}

static bool read_extras(struct text *text)
{
    char ignored[MAX_PACKAGE_NAME + 1];
    if (!take(text, '['))
        return true;
    do {
        skip_spaces(text);
        const char *start = text->at;
        size_t length = take_while(text, is_name_character);
        if (!package_name_normal(start, length, ignored))
            return false;
    } while (take(text, ','));
    return take(text, ']');
}

static bool read_operator(struct text *text)
{
    static const char *const operators[] = {"===", "==", "~=", "!=", "<=", ">=", "<", ">"};
    skip_spaces(text);
    for (size_t i = 0; i < ARRAY_LENGTH(operators); i++) {
        size_t length = strlen(operators[i]);
        if ((size_t)(text->end - text->at) >= length && !memcmp(text->at, operators[i], length)) {
            text->at += length;
            return true;
        }
    }
    return false;
}

static bool read_specifiers(struct text *text)
{
    bool enclosed = take(text, '(');
    skip_spaces(text);
    if (!enclosed && (text->at == text->end || !strchr("=~!<>", *text->at)))
        return true;
    do {
        if (!read_operator(text))
            return false;
        skip_spaces(text);
        if (take_while(text, is_version_character) == 0)
            return false;
    } while (take(text, ','));
    return !enclosed || take(text, ')');
}

static bool is_marker_character(char c)
{
    return isalnum((unsigned char)c) || (c && strchr(" \t'\"_.<>=!~()*,+-", c));
}

static bool read_marker(struct text *text)
{
    return !take(text, ';') || take_while(text, is_marker_character) > 0;
}

/* --- what is wrong ---------------------------------------------------------------------------- */

/* A resolver takes names that end so for files. */
static bool names_archive(const char *text, size_t length)
{
    static const char *const ends[] = {".whl",    ".zip",     ".tar.gz", ".tgz", ".tar", ".tar.bz2",
                                       ".tar.xz", ".tar.zst", ".tbz",    ".egg", ".txt", ".toml"};
    size_t name = 0;
    while (name < length && is_name_character(text[name]))
        name++;
    for (size_t i = 0; i < ARRAY_LENGTH(ends); i++) {
        size_t end = strlen(ends[i]);
        if (name > end && !strncasecmp(text + name - end, ends[i], end))
            return true;
    }
    return false;
}

static const char *fault_of(const char *text, size_t length)
{
    if (*text == '-')
        return "is an option, and those are the operator's to choose; leave it out";
    if (memchr(text, '@', length))
        return "names an address; only packages of the index can be installed, by name";
    if (memmem(text, length, "://", 3))
        return "is an address; only packages of the index can be installed, by name";
    if (memchr(text, '/', length) || *text == '.' || names_archive(text, length))
        return "is a path; install files that are in the sandbox by running pip there";
    return "is not a requirement such as 'numpy', 'numpy>=2,<3' or 'uvicorn[standard]==0.30.0'";
}

static void trim(const char **text, size_t *length)
{
    while (*length > 0 && isspace((unsigned char)**text)) {
        (*text)++;
        (*length)--;
    }
    while (*length > 0 && isspace((unsigned char)(*text)[*length - 1]))
        (*length)--;
}

bool requirement_check(const char *text, size_t length, char name[MAX_PACKAGE_NAME + 1],
                       struct problem *problem)
{
    trim(&text, &length);
    struct text left = {text, text + length};
    const char *start = left.at;
    bool good = length > 0 && length <= MAX_REQUIREMENT_BYTES && !memchr(text, '\0', length) &&
                package_name_normal(start, take_while(&left, is_name_character), name) &&
                !names_archive(text, length) && read_extras(&left) && read_specifiers(&left) &&
                read_marker(&left);
    skip_spaces(&left);
    if (good && left.at == left.end)
        return true;
    problem_set(problem, PROBLEM_INVALID_FIELD, "'%.*s' %s.", (int)(length > 80 ? 80 : length),
                length ? text : "", length ? fault_of(text, length) : "is empty");
    return false;
}

bool requirement_add(json_t *list, const char *text, size_t length, struct problem *problem)
{
    char name[MAX_PACKAGE_NAME + 1];
    if (!requirement_check(text, length, name, problem))
        return false;
    if (json_array_size(list) == MAX_REQUIREMENTS) {
        problem_set(problem, PROBLEM_INVALID_FIELD, "At most %d requirements can be given at once.",
                    MAX_REQUIREMENTS);
        return false;
    }
    trim(&text, &length);
    (void)json_array_append_new(list, json_stringn(text, length));
    return true;
}

bool requirements_parse(const char *text, size_t length, json_t *list, struct problem *problem)
{
    while (length > 0) {
        const char *end = memchr(text, '\n', length);
        size_t taken = end ? (size_t)(end - text) + 1 : length;
        const char *line = text;
        size_t used = taken;
        const char *comment = memmem(line, used, " #", 2);
        if (comment)
            used = (size_t)(comment - line);
        trim(&line, &used);
        if (used > 0 && *line != '#' && !requirement_add(list, line, used, problem))
            return false;
        text += taken;
        length -= taken;
    }
    return true;
}
