/* May there be one more? Counted when it is asked, from what there is: nothing has to be kept in step. */
#pragma once

#include <stdbool.h>

struct problem;
struct record;
struct sandbox;
struct service;

/* A sandbox as `record` says: the machine's limit, its owner's, and whether the name is free. True: no, see *problem. */
bool quota_refuses_sandbox(const struct service *service, const struct record *record,
                           struct problem *problem);
/* Code or a command in this sandbox: its owner's limit, whoever asks. True: no. */
bool quota_refuses_execution(const struct sandbox *sandbox);
/* What to tell them then. */
void quota_tell_executions(const struct sandbox *sandbox, struct problem *problem);
