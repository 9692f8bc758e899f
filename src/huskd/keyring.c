#include "huskd/keyring.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "husk/limits.h"
#include "huskd/caller.h"
#include "huskd/config.h"
#include "huskd/key_file.h"
#include "huskd/name.h"

#define KEY_PREFIX "husk_" /* for programs that look for secrets where none should be */

_Static_assert(KEY_HASH_BYTES == crypto_hash_sha256_BYTES, "keys are hashed with SHA-256");

enum {
    KEY_RANDOM_BYTES = 32,
    KEY_TEXT_SIZE =
        sodium_base64_ENCODED_LEN(KEY_RANDOM_BYTES, sodium_base64_VARIANT_URLSAFE_NO_PADDING)
};

struct key {
    unsigned char hash[KEY_HASH_BYTES];
    struct caller *caller;
};

struct keyring {
    struct callers *callers;
    struct quotas standard;
    bool open;           /* nobody needs a key */
    size_t fixed, count; /* those of husk.conf come first */
    struct key keys[1 + MAX_KEYS];
};

static void hash_key(const char *key, unsigned char hash[KEY_HASH_BYTES])
{
    (void)crypto_hash_sha256(hash, (const unsigned char *)key, strlen(key));
}

/* --- life --------------------------------------------------------------------------------------- */

bool config_has_keys(const struct config *config)
{
    return *config->api_key || *config->api_key_hash || *config->keys_file;
}

static int add_fixed(struct keyring *keyring, const struct config *config, struct failure *why)
{
    struct key *key = &keyring->keys[0];
    key->caller = callers_admin(keyring->callers);
    if (*config->api_key && *config->api_key_hash)
        return fail_plain(why, EINVAL, "api_key and api_key_hash are both set: one is enough");
    if (*config->api_key_hash && key_hash_parse(config->api_key_hash, key->hash) < 0)
        return fail_plain(why, EINVAL,
                          "api_key_hash must be sha256: and 64 hexadecimal digits, as `huskd "
                          "--new-key NAME` writes it");
    if (*config->api_key)
        hash_key(config->api_key, key->hash);
    keyring->fixed = *config->api_key || *config->api_key_hash;
    keyring->count = keyring->fixed;
    key->caller->keyed = keyring->open || keyring->fixed > 0;
    return 0;
}

int keyring_new(const struct config *config, struct callers *callers, struct keyring **ret,
                struct failure *why)
{
    struct keyring *keyring = must_alloc(sizeof *keyring);
    keyring->callers = callers;
    keyring->standard = (struct quotas){.sandboxes = config->quota_sandboxes,
                                        .executions = config->quota_executions,
                                        .requests_per_second = config->quota_requests,
                                        .burst = config->quota_burst};
    keyring->open = !config_has_keys(config);
    int r = add_fixed(keyring, config, why);
    if (r < 0)
        keyring_free(keyring);
    else
        *ret = keyring;
    return r;
}

struct keyring *keyring_free(struct keyring *keyring)
{
    free(keyring);
    return NULL;
}

/* --- the file ----------------------------------------------------------------------------------- */

static int read_text(int fd, char **ret, struct failure *why)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return fail(why, errno, "keys file");
    if (!S_ISREG(status.st_mode))
        return fail_plain(why, EINVAL, "the keys file is not a regular file");
    if (status.st_mode & (S_IRWXG | S_IRWXO))
        return fail_plain(why, EACCES,
                          "others than its owner can read or change the keys file (mode %03o): "
                          "chmod 600 it",
                          (unsigned)(status.st_mode & 0777));
    if (status.st_size > MAX_KEY_FILE_BYTES)
        return fail_plain(why, EFBIG, "the keys file has more than %d bytes", MAX_KEY_FILE_BYTES);
    size_t size = (size_t)status.st_size, length = 0;
    _cleanup_free_ char *text = must_alloc(size + 1);
    while (length < size) {
        ssize_t count = read_at(fd, text + length, size - length, length);
        if (count < 0)
            return fail(why, (int)-count, "read the keys file");
        if (count == 0)
            break;
        length += (size_t)count;
    }
    if (strlen(text) != length)
        return fail_plain(why, EINVAL, "the keys file has a NUL byte in it");
    *ret = TAKE_POINTER(text);
    return 0;
}

/* From here on nothing can fail. Who is in the new file as well notices nothing, his allowance included. */
static void replace(struct keyring *keyring, const struct key_entry *entries, size_t count)
{
    struct caller *admin = callers_admin(keyring->callers);
    for (struct caller *caller = callers_first(keyring->callers); caller; caller = caller->next) {
        caller->keyed = false;
        caller->admin = false;
        caller->quotas = (struct quotas){0};
    }
    admin->admin = true;
    admin->keyed = keyring->fixed > 0;
    for (size_t i = 0; i < count; i++) {
        struct key *key = &keyring->keys[keyring->fixed + i];
        memcpy(key->hash, entries[i].hash, sizeof key->hash);
        key->caller = callers_get(keyring->callers, entries[i].name);
        key->caller->keyed = true;
        key->caller->admin = entries[i].admin;
        key->caller->quotas = entries[i].quotas;
    }
    keyring->count = keyring->fixed + count;
}

int keyring_read(struct keyring *keyring, int fd, struct failure *why)
{
    _cleanup_free_ char *text = NULL;
    _cleanup_free_ struct key_entry *entries = must_alloc(MAX_KEYS * sizeof *entries);
    int r = read_text(fd, &text, why);
    if (r == 0)
        r = key_file_parse(text, &keyring->standard, entries, why);
    if (r < 0)
        return r;
    replace(keyring, entries, (size_t)r);
    return 0;
}

size_t keyring_count(const struct keyring *keyring)
{
    return keyring->count;
}

/* --- who is it ---------------------------------------------------------------------------------- */

struct caller *keyring_find(const struct keyring *keyring, const char *key)
{
    unsigned char hash[KEY_HASH_BYTES];
    struct caller *found = NULL;
    if (keyring->open)
        return callers_admin(keyring->callers);
    hash_key(key, hash);
    for (size_t i = 0; i < keyring->count; i++) {
        if (sodium_memcmp(hash, keyring->keys[i].hash, sizeof hash) == 0)
            found = keyring->keys[i].caller;
    }
    return found;
}

int keyring_make(const char *name, FILE *key_out, FILE *line_out, struct failure *why)
{
    unsigned char random[KEY_RANDOM_BYTES], hash[KEY_HASH_BYTES];
    char encoded[KEY_TEXT_SIZE], hash_text[KEY_HASH_TEXT_SIZE];
    const char *fault = name_fault(name, strlen(name));
    if (fault)
        return fail_plain(why, EINVAL, "the name of a key %s", fault);
    randombytes_buf(random, sizeof random);
    (void)sodium_bin2base64(encoded, sizeof encoded, random, sizeof random,
                            sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    _cleanup_free_ char *key = must_format(KEY_PREFIX "%s", encoded);
    hash_key(key, hash);
    key_hash_format(hash, hash_text);
    (void)fprintf(key_out,
                  "The key, which is shown this once and kept nowhere:\n\n  %s\n\n"
                  "Its line goes into the file that [server] keys_file names; then: systemctl "
                  "reload husk, or kill -HUP huskd.\n\n",
                  key);
    (void)fprintf(line_out, "%s %s %s\n", name, !strcmp(name, ADMIN_NAME) ? "admin" : "user",
                  hash_text);
    return 0;
}
