#include "huskd/caller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct callers {
    struct caller *first;
    struct caller *admin;
};

struct callers *callers_new(void)
{
    struct callers *callers = must_alloc(sizeof *callers);
    callers->admin = callers_get(callers, ADMIN_NAME);
    callers->admin->admin = true;
    return callers;
}

struct callers *callers_free(struct callers *callers)
{
    for (struct caller *next, *at = callers ? callers->first : NULL; at; at = next) {
        next = at->next;
        free(at);
    }
    free(callers);
    return NULL;
}

struct caller *callers_get(struct callers *callers, const char *name)
{
    struct caller *caller = callers->first;
    while (caller && strcmp(caller->name, name) != 0)
        caller = caller->next;
    if (caller)
        return caller;
    caller = must_alloc(sizeof *caller);
    (void)snprintf(caller->name, sizeof caller->name, "%s", name);
    caller->next = callers->first;
    callers->first = caller;
    return caller;
}

struct caller *callers_admin(const struct callers *callers)
{
    return callers->admin;
}

struct caller *callers_first(const struct callers *callers)
{
    return callers->first;
}

bool caller_may_see(const struct caller *caller, const struct caller *owner)
{
    return owner && (caller->admin || caller == owner);
}

bool caller_may_ask(struct caller *caller, uint64_t now_ms, unsigned *ret_seconds)
{
    struct allowance_rate rate = {.per_second = caller->quotas.requests_per_second,
                                  .burst = caller->quotas.burst};
    uint64_t wait_ms;
    if (rate.per_second == 0)
        return true;
    if (rate.burst == 0)
        rate.burst = 2 * rate.per_second;
    if (allowance_take(&caller->requests, rate, now_ms, &wait_ms))
        return true;
    *ret_seconds = (unsigned)((wait_ms + 999) / 1000);
    return false;
}
