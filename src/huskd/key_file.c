#include "huskd/key_file.h"

#include <errno.h>
#include <sodium.h>
#include <stddef.h>
#include <string.h>

#include "base/attributes.h"
#include "base/text.h"
#include "huskd/name.h"

#define HASH_PREFIX "sha256:"

int key_hash_parse(const char *text, unsigned char hash[KEY_HASH_BYTES])
{
    size_t prefix = strlen(HASH_PREFIX);
    if (!starts_with(text, HASH_PREFIX) || strlen(text) != prefix + 2 * KEY_HASH_BYTES)
        return -EINVAL;
    size_t length;
    if (sodium_hex2bin(hash, KEY_HASH_BYTES, text + prefix, 2 * KEY_HASH_BYTES, NULL, &length,
                       NULL) < 0)
        return -EINVAL;
    return length == KEY_HASH_BYTES ? 0 : -EINVAL;
}

void key_hash_format(const unsigned char hash[KEY_HASH_BYTES], char text[KEY_HASH_TEXT_SIZE])
{
    memcpy(text, HASH_PREFIX, sizeof HASH_PREFIX);
    (void)sodium_bin2hex(text + strlen(HASH_PREFIX), 2 * KEY_HASH_BYTES + 1, hash, KEY_HASH_BYTES);
}

/* --- one line ----------------------------------------------------------------------------------- */

static int read_quota(char *word, struct quotas *quotas, struct failure *why)
{
    const struct {
        const char *key;
        uint64_t *value;
    } known[] = {
        {"sandboxes", &quotas->sandboxes},
        {"executions", &quotas->executions},
        {"requests_per_second", &quotas->requests_per_second},
        {"burst", &quotas->burst},
    };
    char *value = strchr(word, '=');
    if (value)
        *value++ = '\0';
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++) {
        if (strcmp(word, known[i].key) != 0)
            continue;
        if (value && parse_u64(value, 0, MAX_QUOTA, known[i].value) == 0)
            return 0;
        return fail_plain(why, EINVAL, "%s must be a whole number from 0 to %d", word, MAX_QUOTA);
    }
    return fail_plain(why, EINVAL,
                      "'%.32s' is no quota; known: sandboxes=, executions=, requests_per_second=, "
                      "burst=",
                      word);
}

static int read_role(const char *name, const char *role, bool *ret_admin, struct failure *why)
{
    *ret_admin = !strcmp(role, "admin");
    if (!*ret_admin && strcmp(role, "user") != 0)
        return fail_plain(why, EINVAL, "the role must be user or admin, not '%.32s'", role);
    if (!*ret_admin && !strcmp(name, ADMIN_NAME))
        return fail_plain(why, EINVAL,
                          "'" ADMIN_NAME "' is the owner of the key in husk.conf: its role is "
                          "admin");
    return 0;
}

/* Quotas of an admin begin without bounds. */
static int read_line(char *line, const struct quotas *standard, struct key_entry *ret,
                     struct failure *why)
{
    static const char blanks[] = " \t\r";
    char *rest = line;
    const char *name = strtok_r(rest, blanks, &rest);
    const char *role = strtok_r(rest, blanks, &rest);
    const char *hash = strtok_r(rest, blanks, &rest);
    *ret = (struct key_entry){0};
    if (!name || !role || !hash)
        return fail_plain(why, EINVAL, "expected: name role hash [quota=number …]");
    const char *fault = name_fault(name, strlen(name));
    if (fault)
        return fail_plain(why, EINVAL, "the name %s", fault);
    memcpy(ret->name, name, strlen(name) + 1);
    int r = read_role(name, role, &ret->admin, why);
    if (r < 0)
        return r;
    if (key_hash_parse(hash, ret->hash) < 0)
        return fail_plain(why, EINVAL,
                          "the hash must be sha256: and 64 hexadecimal digits, as `huskd --new-key "
                          "NAME` writes it");
    if (!ret->admin)
        ret->quotas = *standard;
    for (char *word; r == 0 && (word = strtok_r(rest, blanks, &rest));)
        r = read_quota(word, &ret->quotas, why);
    return r;
}

/* --- all of them -------------------------------------------------------------------------------- */

/* Keys of one owner agree about him, and no key leads to two. */
static int check_others(const struct key_entry *entries, size_t count, struct failure *why)
{
    const struct key_entry *last = &entries[count];
    for (size_t i = 0; i < count; i++) {
        if (!memcmp(entries[i].hash, last->hash, sizeof last->hash))
            return fail_plain(why, EINVAL, "this key is there already, for '%s'", entries[i].name);
        if (!strcmp(entries[i].name, last->name) &&
            (entries[i].admin != last->admin ||
             memcmp(&entries[i].quotas, &last->quotas, sizeof last->quotas) != 0))
            return fail_plain(why, EINVAL,
                              "'%s' has another line, with another role or other quotas",
                              last->name);
    }
    return 0;
}

int key_file_parse(char *text, const struct quotas *standard, struct key_entry *entries,
                   struct failure *why)
{
    size_t count = 0;
    char *next = text;
    for (int number = 1; *next; number++) {
        char *line = next;
        size_t length = strcspn(line, "\n");
        struct failure reason = {0};
        next = line + length + (line[length] == '\n');
        line[length] = '\0';
        line += strspn(line, " \t\r");
        if (*line == '\0' || *line == '#')
            continue;
        int r = 0;
        if (length > MAX_KEY_LINE_BYTES)
            r = fail_plain(&reason, EINVAL, "the line is too long");
        else if (count == MAX_KEYS)
            r = fail_plain(&reason, EINVAL, "there are more than %d keys", MAX_KEYS);
        else
            r = read_line(line, standard, &entries[count], &reason);
        if (r == 0)
            r = check_others(entries, count, &reason);
        if (r < 0)
            return fail_plain(why, EINVAL, "line %d: %s", number, reason.text);
        count++;
    }
    return (int)count;
}
