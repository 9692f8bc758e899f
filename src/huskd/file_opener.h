/* Opens again, while huskd runs, the files that only root may read: keys, certificate, private key.
 *
 * huskd gives up root before it reads the first request, and the files must be readable later: they are replaced, by editors and
 * by certificate renewal with a rename, so a descriptor that was kept would be of the old ones, and a descriptor of the
 * directory would not help, since opening what is in it asks for rights again. So a child of huskd stays behind: with root's id but without any
 * capability. All it ever does is to wait for a byte and then to open these paths, which it was started with, read-only; it passes the
 * descriptors and reads nothing, neither from huskd beyond that byte nor from the files. It ends when huskd does. The
 * files must belong to who starts huskd.
 *
 *     huskd ── "again" ──▶ opener        huskd ◀── a status for each file, descriptors of those that could be opened ── opener */
#pragma once

#include "base/failure.h"

struct file_opener;
struct loop;

enum opened_file {
    OPENED_KEYS,
    OPENED_TLS_CERT,
    OPENED_TLS_KEY,
    OPENED_FILES
};

/* A descriptor for each, or -errno. They stay the opener's and are closed after the callback: -ENOENT where no path was given.
 * `error`: 0; -errno: nothing could be opened, the child is gone. */
typedef void (*file_opener_callback)(int error, const int fds[OPENED_FILES], void *user);

/* Start the child; paths may be "". Before anything else is opened that it should not have. */
int file_opener_start(const char *const paths[OPENED_FILES], struct file_opener **ret,
                      struct failure *why);
struct file_opener *file_opener_free(struct file_opener *opener); /* NULL ok, returns NULL */

/* Ask and wait: for the start of huskd. 0 or -errno. */
int file_opener_ask_now(struct file_opener *opener, file_opener_callback callback, void *user);
/* From now on file_opener_ask() can be used; its answers go there. */
int file_opener_attach(struct file_opener *opener, struct loop *loop, file_opener_callback callback,
                       void *user);
void file_opener_ask(struct file_opener *opener);
