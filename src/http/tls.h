/* Certificate and private key, for libmicrohttpd's GnuTLS. Both come as PEM from open descriptors, so that who reads them needs no
 * rights of its own (huskd/file_opener.h), and can be replaced while connections are open: each handshake takes those that are in
 * force when it begins. TLS 1.2 and 1.3 only, with forward secrecy and authenticated encryption.
 *
 * One in a process: GnuTLS tells its callback nothing by which to find a struct. What was replaced is freed at the end, since a
 * handshake may still be using it; a renewal costs some kilobytes. */
#pragma once

#include <microhttpd.h>

#include "base/failure.h"

struct tls;

struct tls *tls_new(void);
struct tls *tls_free(struct tls *tls); /* NULL ok, returns NULL; no connection may be left */

/* From now on these; the descriptors stay the caller's. On failure everything stays as it was. A key that everybody can read is
 * refused, and one that is not the certificate's. */
int tls_read(struct tls *tls, int cert_fd, int key_fd, struct failure *why);

/* What MHD_start_daemon() needs, as options; the last one ends them. */
enum {
    TLS_OPTIONS = 3
};
void tls_options(struct MHD_OptionItem options[TLS_OPTIONS]);
