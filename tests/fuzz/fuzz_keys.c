/* A keys file. */
#include "fuzz.h"

#include "huskd/key_file.h"
#include "huskd/name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct key_entry entries[MAX_KEYS];
    const struct quotas standard = {.sandboxes = 3};
    struct failure why = {0};
    if (size > MAX_KEY_FILE_BYTES)
        return 0;
    _cleanup_free_ char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    int count = key_file_parse(text, &standard, entries, &why);
    if (count < 0)
        check(*why.text);
    for (int i = 0; i < count; i++) {
        char hash[KEY_HASH_TEXT_SIZE];
        unsigned char again[KEY_HASH_BYTES];
        check(!name_fault(entries[i].name, strlen(entries[i].name)));
        check(entries[i].quotas.sandboxes <= MAX_QUOTA && entries[i].quotas.burst <= MAX_QUOTA);
        check(entries[i].admin || strcmp(entries[i].name, ADMIN_NAME) != 0);
        key_hash_format(entries[i].hash, hash);
        check(key_hash_parse(hash, again) == 0 && !memcmp(again, entries[i].hash, sizeof again));
    }
    return 0;
}
