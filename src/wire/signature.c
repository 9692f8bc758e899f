#include "wire/signature.h"

#include <errno.h>
#include <string.h>

void signatures_init(struct signatures *signatures, const char *key, size_t length)
{
    *signatures = (struct signatures){0};
    (void)crypto_auth_hmacsha256_init(&signatures->keyed, (const unsigned char *)key, length);
}

static void digest_parts(const struct signatures *signatures, const struct part parts[SIGNED_PARTS],
                         unsigned char digest[crypto_auth_hmacsha256_BYTES])
{
    crypto_auth_hmacsha256_state state = signatures->keyed;
    for (size_t i = 0; i < SIGNED_PARTS; i++)
        (void)crypto_auth_hmacsha256_update(&state, (const unsigned char *)parts[i].data,
                                            parts[i].length);
    (void)crypto_auth_hmacsha256_final(&state, digest);
}

void signature_make(const struct signatures *signatures, const struct part parts[SIGNED_PARTS],
                    char text[SIGNATURE_TEXT_SIZE])
{
    unsigned char digest[crypto_auth_hmacsha256_BYTES];
    digest_parts(signatures, parts, digest);
    (void)sodium_bin2hex(text, SIGNATURE_TEXT_SIZE, digest, sizeof digest);
}

int signature_check(struct signatures *signatures, struct part claimed,
                    const struct part parts[SIGNED_PARTS])
{
    if (claimed.length != SIGNATURE_TEXT_SIZE - 1)
        return -EBADMSG;
    unsigned char digest[crypto_auth_hmacsha256_BYTES];
    char text[SIGNATURE_TEXT_SIZE];
    digest_parts(signatures, parts, digest);
    (void)sodium_bin2hex(text, sizeof text, digest, sizeof digest);
    if (sodium_memcmp(text, claimed.data, claimed.length) != 0)
        return -EBADMSG;

    for (size_t i = 0; i < SIGNATURES_REMEMBERED; i++) {
        if (memcmp(signatures->seen[i], digest, sizeof digest) == 0)
            return -EALREADY;
    }
    memcpy(signatures->seen[signatures->next], digest, sizeof digest);
    signatures->next = (signatures->next + 1) % SIGNATURES_REMEMBERED;
    return 0;
}
