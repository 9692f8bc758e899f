#include "huskd/quota.h"

#include <stdint.h>

#include "huskd/caller.h"
#include "huskd/config.h"
#include "huskd/pool.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"

static uint64_t count_sandboxes(const struct service *service, const struct caller *owner)
{
    uint64_t count = 0;
    for (const struct sandbox *s = registry_first(service->registry); s; s = registry_next(s))
        count += s->owner == owner;
    return count;
}

/* What the shim last said, or what it was asked since: detached executions are in the one, those of a moment ago in the other. */
static uint64_t executions_of(const struct sandbox *sandbox)
{
    uint64_t said = (sandbox->state == SANDBOX_BUSY) + sandbox->queued + sandbox->commands;
    uint64_t asked = sandbox->shim ? shim_client_running(sandbox->shim) : 0;
    return said > asked ? said : asked;
}

bool quota_refuses_sandbox(const struct service *service, const struct record *record,
                           struct problem *problem)
{
    const struct caller *owner = callers_get(service->callers, record->owner);
    uint64_t allowed = owner->quotas.sandboxes;
    if (registry_count(service->registry) - service->pool->present >=
        service->config->max_sandboxes) {
        problem_set(problem, PROBLEM_AT_CAPACITY,
                    "All %llu sandboxes are in use. Close one, or try again later.",
                    (unsigned long long)service->config->max_sandboxes);
        return true;
    }
    if (allowed && count_sandboxes(service, owner) >= allowed) {
        problem_set(problem, PROBLEM_TOO_MANY_SANDBOXES,
                    "This API key may have %llu sandboxes at a time. Close one.",
                    (unsigned long long)allowed);
        return true;
    }
    if (*record->name && registry_name_taken(service->registry, owner, record->name)) {
        problem_set(problem, PROBLEM_NAME_TAKEN,
                    "A sandbox named '%s' exists. Use it, close it, or choose another name.",
                    record->name);
        return true;
    }
    return false;
}

bool quota_refuses_execution(const struct sandbox *sandbox)
{
    uint64_t allowed = sandbox->owner->quotas.executions, count = 0;
    if (allowed == 0)
        return false;
    const struct sandbox *s = registry_first(sandbox->service->registry);
    for (; s && count < allowed; s = registry_next(s)) {
        if (s->owner == sandbox->owner)
            count += executions_of(s);
    }
    return count >= allowed;
}

void quota_tell_executions(const struct sandbox *sandbox, struct problem *problem)
{
    problem_set(problem, PROBLEM_TOO_MANY_EXECUTIONS,
                "%llu executions and commands may run or wait at a time in all sandboxes of this "
                "API key. Wait for one to end.",
                (unsigned long long)sandbox->owner->quotas.executions);
}
