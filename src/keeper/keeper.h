/* The keeper's service: the list of containers, and huskd's requests about them. One huskd at a
 * time, the newest wins; when it goes away the containers stay. Owner: the loop. */
#pragma once

#include "base/failure.h"
#include "keeper/container.h"
#include "keeper/descriptor_store.h"

struct keeper;

/* `host` is filled in but for its callbacks; the keeper owns those. `first_id` … `first_id +
 * id_count - 1` are for sandboxes. Everything lives until the process ends. */
struct keeper *keeper_new(struct container_host *host, uid_t first_id, unsigned id_count);

/* A container of a former keeper (STORED_PUT). Takes the descriptors. */
void keeper_restore(struct keeper *keeper, const struct stored_message *message, const int *fds,
                    size_t count);
/* Make and remove a container on trial, then serve on `listen_fd` and tell the anchor. On failure
 * the anchor is told why and the loop ends. */
void keeper_begin(struct keeper *keeper, int listen_fd);
