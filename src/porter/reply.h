/* What the porter says to huskd (husk/porter_protocol.h). The socket blocks: a client that reads slowly makes the porter wait, and
 * an alarm ends it when nothing is taken for PORTER_SECONDS. All of it goes through here, in frames. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/failure.h"
#include "husk/porter_protocol.h"

struct reply {
    int fd; /* borrowed */
    bool begun;
};

/* The request, and its path NUL-terminated. 0 or -errno. */
int reply_receive(struct reply *reply, struct porter_request *request,
                  char path[MAX_FILE_PATH_BYTES + 1]);

/* Data comes now. 0, or -EPIPE when huskd is gone: then the job is to end. */
int reply_begin(struct reply *reply, bool incomplete);
int reply_data(struct reply *reply, const void *data, size_t length);
/* The last word; status of `end` 0, or as of `why`. */
void reply_end(struct reply *reply, struct porter_end *end, const struct failure *why);

/* Is nobody there any more? For jobs that are silent for long. */
bool reply_unwanted(const struct reply *reply);
