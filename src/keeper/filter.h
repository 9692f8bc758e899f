/* The system call filter of everything inside a container, compiled once by the keeper with
 * libseccomp and handed around as BPF bytes in a sealed memfd.
 *
 * What ordinary programs need is allowed; calls that reach for the host's kernel (mounts,
 * namespaces, modules, tracing, keys, …) get EPERM; whatever else exists, or comes with newer
 * kernels, gets ENOSYS, so that libraries fall back (asynchronous I/O too, whose quota is the
 * machine's). By arguments: no namespaces, of sockets only unix ones, TCP and UDP, no other
 * process's limits, nothing that is pushed into a terminal. */
#pragma once

#include "base/failure.h"

/* Memfd with an array of struct sock_filter, or -errno. */
int filter_compile(struct failure *why);
