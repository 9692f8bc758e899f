/* The disk of a sandbox: one tmpfs of limited size and number of files, not mounted anywhere in P:
 * the keeper holds it by a descriptor, the container mounts it. It is gone when both are. In it:
 *   upper, work  the overlay's writable layer
 *   root         where the overlay is mounted
 *   home         /home/user
 *   run          /run/husk: sockets and connection file of the kernel; root directory of the shim
 *   shm          /dev/shm
 *   incoming     what porters unpack and remove; not in the container */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/failure.h"

/* Descriptor of the new file system's top directory, or -errno. `uid` owns home, run, shm and incoming. */
int storage_make(uint64_t bytes, uid_t uid, struct failure *why);
/* Another size, while it is in use. -EINVAL when it holds more than that: nothing has changed then. */
int storage_resize(int storage, uint64_t bytes, struct failure *why);
uint64_t storage_used_bytes(int storage);
