#include "huskd/service.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "huskd/caller.h"
#include "huskd/config.h"
#include "huskd/expiry.h"
#include "huskd/keeper_client.h"
#include "huskd/pool.h"
#include "huskd/sandbox.h"
#include "huskd/state_directory.h"
#include "loop/loop.h"

enum {
    FAILURES_TO_WORRY = 3
};

/* --- taking over the sandboxes of an earlier huskd ---------------------------------------------- */

static void one_less(struct service *service)
{
    if (--service->adopting > 0)
        return;
    if (service->adopted)
        log_event(LOG_INFO, "took over sandboxes", "count", log_number((int64_t)service->adopted),
                  NULL);
    if (service->phase == SERVICE_STARTING)
        service->phase = SERVICE_RUNNING;
    expiry_sweep(service);
    pool_begin(service->pool);
}

static void adopted(struct sandbox *sandbox _unused_, const struct problem *problem, void *user)
{
    struct service *service = user;
    if (!problem)
        service->adopted++;
    one_less(service);
}

static void ask_for_list(struct service *service);

static void take_listed(const struct keeper_message *message, void *user)
{
    struct service *service = user;
    struct id id;
    memcpy(id.bytes, message->id, sizeof id.bytes);
    if (message->status == 0 && !registry_find_id(service->registry, id)) {
        service->adopting++;
        sandbox_adopt(service, id, &message->limits,
                      (struct sandbox_waiter){.callback = adopted, .user = service});
    }
    if (message->flags & KEEPER_MORE)
        return;
    if (message->status < 0 && message->status != -ENOENT) {
        log_event(LOG_WARNING, "the keeper could not list its sandboxes; asking again", "reason",
                  message->text, NULL);
        ask_for_list(service);
        return;
    }
    one_less(service);
}

static void ask_for_list(struct service *service)
{
    struct keeper_message message = {.type = KEEPER_USAGE};
    (void)keeper_client_ask(service->keeper, &message, take_listed, service);
}

void service_start(struct service *service)
{
    service->adopting = 1;
    ask_for_list(service);
}

/* --- the keeper --------------------------------------------------------------------------------- */

static void keeper_says_gone(struct id id, void *user)
{
    struct service *service = user;
    struct sandbox *sandbox = registry_find_id(service->registry, id);
    if (sandbox)
        sandbox_died(sandbox);
}

static void keeper_is_lost(const char *reason, void *user)
{
    const struct service *service = user;
    enum log_level level = service->phase == SERVICE_STOPPING ? LOG_DEBUG : LOG_WARNING;
    log_event(level, "lost the keeper; connecting again", "reason", reason, NULL);
}

/* Sandboxes may have ended while nobody could tell us. */
static void keeper_is_back(const char *version, void *user)
{
    struct service *service = user;
    log_event(LOG_INFO, "connected to the keeper again", "version", version, NULL);
    if (service->phase == SERVICE_RUNNING)
        expiry_sweep(service);
    pool_wake(service->pool);
}

/* While the anchor lives it starts another keeper. */
static void keeper_is_absent(void *user)
{
    struct service *service = user;
    if (service->abandoned && state_directory_abandoned(service->config->state) == 0)
        service->abandoned(service->abandoned_user);
}

/* --- life --------------------------------------------------------------------------------------- */

struct service *service_new(const struct config *config, struct callers *callers, struct loop *loop,
                            int keeper_fd, int ledger_fd)
{
    struct service *service = must_alloc(sizeof *service);
    char path[PATH_MAX];
    (void)format_text(path, sizeof path, "%s/" KEEPER_SOCKET_NAME, config->state);
    service->config = config;
    service->loop = loop;
    service->registry = registry_new();
    service->callers = callers;
    service->seal_key = seal_key_read(ledger_fd);
    service->creations.limit = config->max_creating;
    service->fetches.limit = MAX_FETCHES;
    service->started_ms = now_ms();
    service->pool = pool_new(service, ledger_fd);
    struct keeper_events events = {.gone = keeper_says_gone,
                                   .lost = keeper_is_lost,
                                   .absent = keeper_is_absent,
                                   .connected = keeper_is_back,
                                   .user = service};
    service->keeper = keeper_client_new(loop, keeper_fd, path, &events);
    return service;
}

struct service *service_free(struct service *service)
{
    if (!service)
        return NULL;
    sandbox_forget_all(service);
    pool_free(service->pool);
    keeper_client_free(service->keeper);
    registry_free(service->registry);
    timer_remove(service->sweep_timer);
    free(service);
    return NULL;
}

/* --- questions of the http layer ---------------------------------------------------------------- */

static void tell_closed(enum ending ending, const char *reference, struct problem *problem)
{
    problem_set(problem, PROBLEM_SANDBOX_CLOSED, "The sandbox '%.64s' %s. Create another one.",
                reference, ending == ENDED_CLOSED ? "was closed" : ending_name(ending));
    problem->why = ending_name(ending);
}

struct sandbox *service_find(const struct service *service, const struct caller *caller,
                             const char *reference, struct problem *problem)
{
    struct sandbox *sandbox = registry_find(service->registry, caller, reference);
    if (sandbox && sandbox_live(sandbox))
        return sandbox;
    if (service->phase == SERVICE_STARTING || (sandbox && sandbox->state < SANDBOX_READY)) {
        problem_set(problem, PROBLEM_STARTING, "%s Try again in a moment.",
                    sandbox ? "The sandbox is still being made." : "The service is starting.");
        return NULL;
    }
    const struct tombstone *stone = registry_find_tombstone(service->registry, caller, reference);
    if (sandbox)
        tell_closed(sandbox->ending, reference, problem);
    else if (registry_ambiguous(service->registry, caller, reference))
        problem_set(problem, PROBLEM_NAME_AMBIGUOUS,
                    "Several owners have a sandbox named '%.64s'. Say which one: by its id, or as "
                    "owner:%.64s.",
                    reference, reference);
    else if (stone)
        tell_closed(stone->ending, reference, problem);
    else
        problem_set(problem, PROBLEM_SANDBOX_NOT_FOUND,
                    "There is no sandbox '%.64s'. GET /sandboxes lists those there are.",
                    reference);
    return NULL;
}

unsigned service_unhealthy(const struct service *service, char reasons[SERVICE_REASONS][320])
{
    unsigned count = 0;
    if (service->phase != SERVICE_RUNNING)
        (void)snprintf(reasons[count++], sizeof reasons[0], "the service is %s",
                       service->phase == SERVICE_STARTING ? "starting" : "stopping");
    if (!keeper_client_connected(service->keeper))
        (void)snprintf(reasons[count++], sizeof reasons[0],
                       "the keeper, which makes sandboxes, does not answer");
    if (service->creations_failed >= FAILURES_TO_WORRY)
        (void)snprintf(reasons[count++], sizeof reasons[0],
                       "the last %u sandboxes could not be made: %s", service->creations_failed,
                       service->last_failure);
    return count;
}
