/* The files through which a kernel and the shim find each other, in the directory that is / for the
 * shim and /run/husk for the container. The sandbox can write there too: names are fixed, nothing
 * is listed, nothing is followed.
 *
 * A generation is one started kernel; its files are never used by another. */
#pragma once

#include "base/failure.h"

enum kernel_port {
    PORT_SHELL = 1,
    PORT_IOPUB,
    PORT_STDIN,
    PORT_CONTROL,
    PORT_HEARTBEAT
};

enum {
    KERNEL_FILE_NAME_SIZE = 64,
    KERNEL_KEY_SIZE = 65
};

/* Socket of a port, and the connection file, by generation. */
#define KERNEL_SOCKET_FORMAT "/k%u-%u"
#define KERNEL_FILE_FORMAT   "/kernel-%u.json"
#define KERNEL_FILE_ROOT     "/run/husk" /* what / is for the container */

/* Write the connection file with a new key, which is also put into `key`. */
int kernel_files_write(unsigned generation, char key[KERNEL_KEY_SIZE], struct failure *why);
/* Remove the connection file and the sockets; what is not there is no error. */
void kernel_files_remove(unsigned generation);
