#include "http/tls.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "husk/limits.h"

/* Without versions before 1.2, RSA key exchange (no forward secrecy) and CBC (padding attacks). */
#define PRIORITIES                                                                                 \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-AES-128-CBC:-AES-256-CBC:%SERVER_PRECEDENCE"

enum {
    LONGEST_CHAIN = 16,
    KEY_ID_BYTES = 64
};

/* A certificate with its chain, and its key. */
struct identity {
    struct identity *older;
    gnutls_pcert_st chain[LONGEST_CHAIN];
    unsigned length;
    gnutls_privkey_t key;
};

struct tls {
    struct identity *newest; /* in force; NULL: none was read yet */
};

static struct tls *the_one;

static struct identity *identity_free(struct identity *identity)
{
    for (unsigned i = 0; i < identity->length; i++)
        gnutls_pcert_deinit(&identity->chain[i]);
    if (identity->key)
        gnutls_privkey_deinit(identity->key);
    free(identity);
    return NULL;
}

struct tls *tls_new(void)
{
    husk_assert(!the_one);
    the_one = must_alloc(sizeof *the_one);
    return the_one;
}

struct tls *tls_free(struct tls *tls)
{
    if (!tls)
        return NULL;
    for (struct identity *older, *at = tls->newest; at; at = older) {
        older = at->older;
        identity_free(at);
    }
    free(tls);
    the_one = NULL;
    return NULL;
}

/* --- reading ------------------------------------------------------------------------------------ */

struct pem {
    char text[MAX_PEM_BYTES];
    size_t length;
};

static int read_pem(int fd, mode_t forbidden, struct pem *ret, struct failure *why)
{
    struct stat status;
    if (fd < 0)
        return fail(why, -fd, "open it");
    if (fstat(fd, &status) < 0)
        return fail(why, errno, "look at it");
    if (!S_ISREG(status.st_mode))
        return fail_plain(why, EINVAL, "it is not a regular file");
    if (status.st_mode & forbidden)
        return fail_plain(why, EACCES, "everybody can read or change it (mode %03o): chmod o= it",
                          (unsigned)(status.st_mode & 0777));
    ret->length = 0;
    for (ssize_t count = 1; count > 0; ret->length += (size_t)count) {
        if (ret->length == sizeof ret->text)
            return fail_plain(why, EFBIG, "it has more than %d bytes", MAX_PEM_BYTES - 1);
        count = read_at(fd, ret->text + ret->length, sizeof ret->text - ret->length, ret->length);
        if (count < 0)
            return fail(why, (int)-count, "read it");
    }
    return 0;
}

static gnutls_datum_t datum_of(struct pem *pem)
{
    return (gnutls_datum_t){.data = (unsigned char *)pem->text, .size = (unsigned)pem->length};
}

static int take_cert(struct identity *identity, struct pem *pem, struct failure *why)
{
    gnutls_datum_t datum = datum_of(pem);
    unsigned length = LONGEST_CHAIN;
    int r = gnutls_pcert_list_import_x509_raw(identity->chain, &length, &datum, GNUTLS_X509_FMT_PEM,
                                              GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);
    if (r < 0)
        return fail_plain(why, EINVAL, "it has no usable certificate: %s", gnutls_strerror(r));
    identity->length = length;
    return 0;
}

static int take_key(struct identity *identity, struct pem *pem, struct failure *why)
{
    gnutls_datum_t datum = datum_of(pem);
    int r = gnutls_privkey_init(&identity->key);
    if (r == 0)
        r = gnutls_privkey_import_x509_raw(identity->key, &datum, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (r < 0)
        return fail_plain(why, EINVAL, "it has no usable private key (without a passphrase): %s",
                          gnutls_strerror(r));
    return 0;
}

static int check_pair(const struct identity *identity, struct failure *why)
{
    unsigned char of_cert[KEY_ID_BYTES], of_key[KEY_ID_BYTES];
    size_t cert_length = sizeof of_cert, key_length = sizeof of_key;
    gnutls_pubkey_t public;
    int r = gnutls_pubkey_init(&public);
    if (r < 0)
        return fail_plain(why, ENOMEM, "%s", gnutls_strerror(r));
    r = gnutls_pubkey_import_privkey(public, identity->key, 0, 0);
    if (r == 0)
        r = gnutls_pubkey_get_key_id(public, GNUTLS_KEYID_USE_SHA256, of_key, &key_length);
    if (r == 0)
        r = gnutls_pubkey_get_key_id(identity->chain[0].pubkey, GNUTLS_KEYID_USE_SHA256, of_cert,
                                     &cert_length);
    gnutls_pubkey_deinit(public);
    if (r < 0)
        return fail_plain(why, EINVAL, "%s", gnutls_strerror(r));
    if (cert_length != key_length || memcmp(of_cert, of_key, key_length) != 0)
        return fail_plain(why, EINVAL, "the certificate is of another key");
    return 0;
}

int tls_read(struct tls *tls, int cert_fd, int key_fd, struct failure *why)
{
    struct pem *pem = must_alloc(sizeof *pem);
    struct identity *identity = must_alloc(sizeof *identity);
    struct failure reason;
    const char *which = "tls_cert";
    int r = read_pem(cert_fd, 0, pem, &reason);
    if (r == 0)
        r = take_cert(identity, pem, &reason);
    if (r == 0) {
        which = "tls_key";
        r = read_pem(key_fd, S_IRWXO, pem, &reason);
    }
    if (r == 0)
        r = take_key(identity, pem, &reason);
    if (r == 0)
        r = check_pair(identity, &reason);
    sodium_memzero(pem, sizeof *pem);
    free(pem);
    if (r < 0) {
        identity_free(identity);
        return fail_plain(why, -r, "%s: %s", which, reason.text);
    }
    identity->older = tls->newest;
    tls->newest = identity;
    return 0;
}

/* --- for libmicrohttpd -------------------------------------------------------------------------- */

static int choose(gnutls_session_t session _unused_, const gnutls_datum_t *authorities _unused_,
                  int authority_count _unused_, const gnutls_pk_algorithm_t *algorithms _unused_,
                  int algorithm_count _unused_, gnutls_pcert_st **ret_chain, unsigned *ret_length,
                  gnutls_privkey_t *ret_key)
{
    struct identity *identity = the_one ? the_one->newest : NULL;
    if (!identity)
        return -1;
    *ret_chain = identity->chain;
    *ret_length = identity->length;
    *ret_key = identity->key;
    return 0;
}

void tls_options(struct MHD_OptionItem options[TLS_OPTIONS])
{
    options[0] =
        (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(uintptr_t)choose};
    options[1] =
        (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)PRIORITIES};
    options[2] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
}
