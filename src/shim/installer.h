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

/* SHIM_PACKAGES and SHIM_INSTALL: each waits for what is at work. -ENOSPC: too many lists are waited for; -EBUSY: another install
 * is at work, or waits; -EINVAL. */
int installer_list(struct installer *installer, struct ticket ticket);
int installer_install(struct installer *installer, struct ticket ticket, json_t *body);
