/* A client: where the service is, the key, the one curl handle, and the way to cancel. Owner: the thread that calls; only
 * `cancelled` and `wake` are for others. */
#pragma once

#include <curl/curl.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "husk.h"

struct husk {
    char *url; /* without a slash at the end */
    char *api_key, *ca_file, *user_agent;
    double connect_timeout, timeout; /* seconds */
    bool loopback;                   /* no proxy is asked */
    CURL *easy;
    CURLM *multi; /* drives the handle, and keeps its connections */
    atomic_bool cancelled;
    int wake;         /* eventfd: a call that waits looks at `cancelled` */
    atomic_bool busy; /* a call is under way: callbacks must use another client */
    husk_progress progress;
    void *progress_user;
};

/* Was it cancelled? Then that is over: the caller ends its call. */
bool client_take_cancel(struct husk *husk);
/* Woken for a call that is over: forget it. */
void client_settle(struct husk *husk);
/* Wait for so long, or until cancelled: true. */
bool client_wait(struct husk *husk, int milliseconds);
/* Wait until `fd` can be read (POLLIN) or written (POLLOUT). 0, -ECANCELED, or another -errno. */
int client_wait_for(struct husk *husk, int fd, short events);
