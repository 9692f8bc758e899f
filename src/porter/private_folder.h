/* A folder for one job, on the sandbox's disk but out of the sandbox's sight. Whoever makes one holds a lock on it; so what a job that
 * was killed has left is known by its lock, and the next job removes it with its own. */
#pragma once

#include "base/failure.h"

enum {
    PRIVATE_NAME_SIZE = 17
};

struct private_folder {
    int incoming; /* borrowed: the folder of these folders */
    int fd;       /* -1: there is none */
    unsigned long count;
    char name[PRIVATE_NAME_SIZE];
};

int private_folder_make(struct private_folder *folder, int incoming, struct failure *why);
/* Move something in there, under a name of its own: it has gone from where it was, and will be removed with the folder. 0 or
 * -errno. */
int private_folder_take(struct private_folder *folder, int from, const char *name);
/* Remove it with all that is in it, however deep: by two descriptors, not by recursion. What a process of the sandbox still puts
 * in there may stay for the next job. */
void private_folder_remove(struct private_folder *folder);
