/* One container: cgroup, storage, namespaces, init and shim, from the first step to the last trace
 * of it.
 *
 * States:  MAKING   its first process builds the file tree and asks for its id map
 * (container_setup.h) RUNNING  init and shim are there REMOVING both were killed; waiting for their
 * end and for the cgroup to empty then `gone` is called and the container is freed. A failure while
 * MAKING, the end of init or of the shim while RUNNING, and container_remove() all lead to
 * REMOVING. Owner: the keeper's loop. */
#pragma once

#include <stdbool.h>

#include "base/failure.h"
#include "base/id.h"
#include "husk/keeper_protocol.h"
#include "keeper/cgroup_tree.h"
#include "loop/loop.h"

struct container;
struct zygote;

/* What all containers share; lives as long as the keeper. */
struct container_host {
    struct loop *loop;
    struct cgroup_tree cgroups;
    const char *state; /* directory */
    const char *image; /* directory */
    char *mount_point; /* <state>/mnt */
    int filter_fd;     /* compiled system call filter */
    int store_fd;      /* socket to the anchor's descriptor store */
    int init_program;
    int shim_program;
    int zygote_library;
    int porter_program;
    unsigned porters; /* of all containers together */
    int fetcher_program;
    const char *cache;     /* directory of fetched packages; NULL: there is none */
    struct zygote *zygote; /* NULL: there is none, kernels are executed */
    uid_t client;          /* huskd's id in P: may connect to shims */
    /* The container is RUNNING (why NULL), or could not be made: then it is REMOVING already and
     * `gone` follows. */
    void (*made)(struct container *container, const struct failure *why, void *user);
    /* Nothing of it is left. The container is freed when this returns. */
    void (*gone)(struct container *container, void *user);
    void *user;
};

struct container_plan {
    struct id id;
    struct sandbox_limits limits;
    uid_t uid;  /* in P, not used by any other container */
    bool trial; /* without a shim: RUNNING as soon as init runs, to see whether this machine can do
                   it */
};

/* Begin to make one. On failure nothing is left and `made` is not called. `user` is for the
 * callbacks. */
int container_new(struct container_host *host, const struct container_plan *plan,
                  struct container **ret, struct failure *why);
/* One that a former keeper made: descriptors as of `enum stored_descriptor`, taken over; count may
 * be lower if it was half-made. It is RUNNING, or REMOVING at once if half-made. */
struct container *container_restore(struct container_host *host, const struct container_plan *plan,
                                    const int *fds, size_t count);
/* Other limits, all of them or none. -EBUSY when it uses more than they allow. `*unchanged`: a
 * failure left everything as it was. */
int container_adapt(struct container *container, const struct sandbox_limits *limits,
                    bool *unchanged, struct failure *why);
/* Idempotent. */
void container_remove(struct container *container);

const struct container_plan *container_plan(const struct container *container);
bool container_is_running(const struct container *container);
/* A file below /home/user, see open_file_beneath(). -ENOENT when the container is not RUNNING. */
int container_open_file(const struct container *container, const char *path);
/* A nameless file on its disk; giving it a name below /home/user: see nameless_file.h. */
int container_make_file(const struct container *container);
int container_place_file(const struct container *container, int fd, const char *path,
                         bool *replaced);
/* Start a porter on a folder below /home/user, with an archive (borrowed; -1: none). The socket to it, or -errno: see
 * KEEPER_PORT. */
int container_port(struct container *container, const char *path, int archive);
void container_usage(const struct container *container, struct sandbox_usage *usage);

/* The keeper keeps its containers in a list through these. */
struct container *container_next(const struct container *container);
void container_set_next(struct container *container, struct container *next);
