/* What is installed in the sandbox, and installing wheels into it: husk-venv (kernel_image/venv.c), run inside the container by
 * init, apart, so that a restart of the kernel does not end it. One at a time; huskd sees to the order. One that is killed
 * while it works is followed by another that puts back what it had moved.
 *
 * Answers with SHIM_RESULT. Life: installer_new → … → installer_free. Loop thread. */
#pragma once

#include <jansson.h>

#include "loop/loop.h"
#include "shim/connection.h"
#include "shim/init_link.h"

struct installer;

struct installer_setup { /* borrowed */
    struct loop *loop;
    struct init_link *init;
    struct connection *connection;
    int null_fd;
};

struct installer *installer_new(const struct installer_setup *setup);
struct installer *installer_free(struct installer *installer); /* NULL ok, returns NULL */

/* SHIM_PACKAGES: waits for what is at work. -ENOSPC: too many do. SHIM_INSTALL: -EBUSY when something is at work, -EINVAL. Both
 * -EAGAIN: init does not take it. */
int installer_list(struct installer *installer, struct ticket ticket);
int installer_install(struct installer *installer, struct ticket ticket, const json_t *body);
