#include "huskd/sandbox.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "huskd/audit.h"
#include "huskd/caller.h"
#include "huskd/config.h"
#include "huskd/expiry.h"
#include "huskd/handover.h"
#include "huskd/keeper_client.h"
#include "huskd/packages.h"
#include "huskd/pool.h"
#include "huskd/quota.h"
#include "huskd/service.h"
#include "loop/loop.h"

/* Its id is nobody's business. */
static bool of_the_pool(const struct sandbox *sandbox)
{
    return *sandbox->record.recipe;
}

/* Who it is, and whose. */
static void set_record(struct sandbox *sandbox, const struct record *record)
{
    sandbox->record = *record;
    sandbox->owner = *record->owner ? callers_get(sandbox->service->callers, record->owner) : NULL;
}

static void answer(struct sandbox *sandbox, struct sandbox_waiter *waiter,
                   const struct problem *problem)
{
    struct sandbox_waiter once = *waiter;
    *waiter = (struct sandbox_waiter){0};
    if (once.callback)
        once.callback(sandbox, problem, once.user);
}

/* --- the end ------------------------------------------------------------------------------------ */

static void sandbox_free(struct sandbox *sandbox)
{
    timer_remove(sandbox->timer);
    json_decref(sandbox->kernel);
    free(sandbox->start);
    free(sandbox);
}

/* Nothing of it is left. `failure`: what to tell who closed it, if that is not so. */
static void finish(struct sandbox *sandbox, const struct problem *failure)
{
    struct pool *pool = sandbox->service->pool;
    sandbox_set_state(sandbox, SANDBOX_GONE);
    audit_ended(sandbox);
    registry_remove(sandbox->service->registry, sandbox, sandbox->ending);
    if (of_the_pool(sandbox))
        pool_gone(pool);
    answer(sandbox, &sandbox->made, &sandbox->problem);
    answer(sandbox, &sandbox->closed, failure);
    sandbox_free(sandbox);
    pool_wake(pool);
}

static void removed(const struct keeper_message *message, void *user)
{
    struct sandbox *sandbox = user;
    struct problem problem;
    if (message->status == 0 || message->status == -ENOENT) {
        finish(sandbox, NULL);
        return;
    }
    /* The sweep will try again. */
    log_event(LOG_ERROR, "sandbox could not be removed", "sandbox", sandbox->text, "reason",
              message->text, NULL);
    problem_set(&problem, PROBLEM_REMOVE_FAILED,
                "The sandbox is closed, but not everything of it could be removed yet: %s",
                message->text);
    finish(sandbox, &problem);
}

static void ask_keeper(struct sandbox *sandbox, enum keeper_type type, keeper_callback callback)
{
    struct keeper_message message = {.type = type, .limits = sandbox->record.limits};
    memcpy(message.id, sandbox->id.bytes, sizeof message.id);
    sandbox->keeper_tag = keeper_client_ask(sandbox->service->keeper, &message, callback, sandbox);
}

void sandbox_close(struct sandbox *sandbox, enum ending ending, const struct problem *problem,
                   struct sandbox_waiter closed)
{
    if (sandbox->state == SANDBOX_CLOSING)
        return;
    packages_end(sandbox, problem);
    struct shim_client *shim = TAKE_POINTER(sandbox->shim);
    handover_break_off(sandbox);
    if (of_the_pool(sandbox))
        pool_left(sandbox->service->pool, sandbox);
    sandbox->ending = of_the_pool(sandbox) ? ENDED_UNMADE : ending;
    sandbox->problem = *problem;
    if (problem->kind == PROBLEM_SANDBOX_CLOSED)
        sandbox->problem.why = ending_name(ending);
    sandbox->closed = closed;
    sandbox_set_state(sandbox, SANDBOX_CLOSING);
    timer_disarm(sandbox->timer);
    slots_release(&sandbox->service->creations, &sandbox->slot);
    shim_client_close(shim, &sandbox->problem);
    if (!sandbox->with_keeper)
        finish(sandbox, NULL);
    else if (!sandbox->create_asked)
        ask_keeper(sandbox, KEEPER_REMOVE, removed);
    /* else: created() asks, so that the keeper never has both questions about one sandbox at a time. */
}

void sandbox_died(struct sandbox *sandbox)
{
    /* While it is being made or removed the keeper answers the question it has about it. */
    if (sandbox->state == SANDBOX_CREATING || sandbox->state == SANDBOX_CLOSING)
        return;
    struct problem problem;
    problem_set(&problem, PROBLEM_SANDBOX_CLOSED, "The sandbox died: its container ended");
    sandbox->with_keeper = false;
    sandbox_close(sandbox, ENDED_DIED, &problem, (struct sandbox_waiter){0});
}

void sandbox_abandon(struct sandbox *sandbox)
{
    struct problem problem;
    sandbox->made = (struct sandbox_waiter){0};
    problem_set(&problem, PROBLEM_SANDBOX_CLOSED,
                "Who asked for this sandbox went away before it was made.");
    sandbox_close(sandbox, ENDED_UNMADE, &problem, (struct sandbox_waiter){0});
}

void sandbox_forget_close(struct sandbox *sandbox)
{
    sandbox->closed.callback = NULL;
}

/* --- being made --------------------------------------------------------------------------------- */

static void fail_creation(struct sandbox *sandbox, enum problem_kind kind, const char *reason)
{
    struct service *service = sandbox->service;
    struct problem problem;
    problem_set(&problem, kind, "The sandbox could not be made: %s", reason);
    if (!of_the_pool(sandbox)) {
        service->creations_failed++;
        (void)format_text(service->last_failure, sizeof service->last_failure, "%s", reason);
    }
    sandbox_close(sandbox, ENDED_UNMADE, &problem, (struct sandbox_waiter){0});
}

/* It failed before its user could use it, or afterwards. */
static void lose(struct sandbox *sandbox, const char *reason)
{
    struct problem problem;
    if (sandbox->state == SANDBOX_STARTING) {
        fail_creation(sandbox, PROBLEM_CREATE_FAILED, reason);
        return;
    }
    problem_set(&problem, PROBLEM_SANDBOX_CLOSED, "The sandbox died: %s", reason);
    sandbox_close(sandbox, ENDED_DIED, &problem, (struct sandbox_waiter){0});
}

static void timer_fired(struct timer *timer, void *user)
{
    struct sandbox *sandbox = user;
    if (sandbox->state == SANDBOX_ADAPTING)
        return; /* the keeper's answer decides */
    if (!sandbox_live(sandbox) && sandbox->state != SANDBOX_WARM) {
        lose(sandbox, sandbox->state == SANDBOX_STARTING ? "its kernel did not answer in time"
                                                         : "its shim did not answer in time");
        return;
    }
    uint64_t left = expiry_left_ms(sandbox, up_seconds(), now_ms());
    if (left > 0) {
        timer_arm(timer, left);
        return;
    }
    struct problem problem;
    problem_set(&problem, PROBLEM_SANDBOX_CLOSED,
                "The sandbox expired: its time was over, or nobody used it for %u seconds. Create "
                "another one, with a larger ttl_seconds or idle_seconds if need be.",
                (unsigned)sandbox->record.idle_seconds);
    sandbox_close(sandbox, ENDED_EXPIRED, &problem, (struct sandbox_waiter){0});
}

static void become_live(struct sandbox *sandbox)
{
    slots_release(&sandbox->service->creations, &sandbox->slot);
    timer_arm(sandbox->timer, expiry_left_ms(sandbox, up_seconds(), now_ms()));
    answer(sandbox, &sandbox->made, NULL);
    pool_wake(sandbox->service->pool);
}

/* Its place is given back last: who is first in line may get this one instead. */
void sandbox_become_warm(struct sandbox *sandbox)
{
    struct service *service = sandbox->service;
    sandbox_set_state(sandbox, SANDBOX_WARM);
    timer_arm(sandbox->timer, expiry_left_ms(sandbox, up_seconds(), now_ms()));
    answer(sandbox, &sandbox->made, NULL);
    slots_release(&service->creations, &sandbox->slot);
    pool_wake(service->pool);
}

/* What the shim says of a sandbox of the pool is believed if huskd and keeper say the same. */
static int take_pool_record(struct sandbox *sandbox, const struct shim_status *status,
                            const struct record *record, struct failure *why)
{
    struct pool *pool = sandbox->service->pool;
    struct sandbox_limits limits = sandbox->record.limits;
    set_record(sandbox, record);
    sandbox->record.name[0] = '\0';
    pool_entered(pool, sandbox);
    if (status->state != SHIM_IS_READY || !same_limits(&limits, &record->limits) ||
        !pool_accepts(pool, sandbox))
        return fail_plain(why, ESTALE, "it waited in a pool, and this one has no use for it");
    return 0;
}

static void tell_record(struct sandbox *sandbox)
{
    json_t *record = record_to_json(&sandbox->record);
    _cleanup_free_ char *text = record ? json_dumps(record, JSON_COMPACT) : NULL;
    json_decref(record);
    if (text)
        (void)shim_client_tell(sandbox->shim, SHIM_RECORD, text, strlen(text));
}

/* Nobody can tell whose it was (seal.h). */
static void disown(const struct sandbox *sandbox, struct record *record)
{
    audit_disowned(sandbox, record->owner, record->name);
    record->name[0] = '\0';
    (void)format_text(record->owner, sizeof record->owner, ADMIN_NAME);
    seal_set(&sandbox->service->seal_key, sandbox->id, record);
}

static int take_record(struct sandbox *sandbox, const struct shim_status *status,
                       struct failure *why)
{
    struct record record;
    int r = record_from_json(status->record, &record, why);
    if (r < 0)
        return r;
    if (*record.recipe)
        return take_pool_record(sandbox, status, &record, why);
    bool sealed = seal_good(&sandbox->service->seal_key, sandbox->id, &record);
    if (!sealed)
        disown(sandbox, &record);
    const struct caller *owner = callers_get(sandbox->service->callers, record.owner);
    if (*record.name && registry_name_taken(sandbox->service->registry, owner, record.name))
        return fail_plain(why, EEXIST, "another sandbox has its name");
    set_record(sandbox, &record);
    if (!sealed)
        tell_record(sandbox);
    if (*record.name)
        registry_add_name(sandbox->service->registry, sandbox);
    return 0;
}

static void follow_shim(struct sandbox *sandbox, const struct shim_status *status)
{
    static const enum sandbox_state states[] = {[SHIM_IS_READY] = SANDBOX_READY,
                                                [SHIM_IS_BUSY] = SANDBOX_BUSY,
                                                [SHIM_IS_RESTARTING] = SANDBOX_RESTARTING};
    sandbox->used_ms = now_ms();
    if (sandbox->state != states[status->state])
        sandbox_set_state(sandbox, states[status->state]);
}

static bool usable(const struct shim_status *status)
{
    return status->state == SHIM_IS_READY || status->state == SHIM_IS_BUSY ||
           status->state == SHIM_IS_RESTARTING;
}

/* A sandbox that was not finished when its huskd died was promised to nobody. */
static void adopt_status(struct sandbox *sandbox, const struct shim_status *status)
{
    struct failure why;
    if (!status->is_answer)
        return; /* it just changed its state; who it is comes next */
    if (!usable(status)) {
        lose(sandbox, "it was not finished when huskd ended, or its kernel had died");
    } else if (take_record(sandbox, status, &why) < 0) {
        lose(sandbox, why.text);
    } else if (of_the_pool(sandbox)) {
        sandbox_become_warm(sandbox);
    } else {
        follow_shim(sandbox, status);
        become_live(sandbox);
    }
}

static void kernel_is_ready(struct sandbox *sandbox, const struct shim_status *status)
{
    sandbox->service->creations_failed = 0;
    if (of_the_pool(sandbox)) {
        sandbox_become_warm(sandbox);
        return;
    }
    follow_shim(sandbox, status);
    audit_created(sandbox);
    become_live(sandbox);
}

static void on_status(const struct shim_status *status, void *user)
{
    struct sandbox *sandbox = user;
    sandbox->execution_count = status->execution_count;
    sandbox->queued = status->queued;
    sandbox->commands = status->commands;
    if (status->kernel) {
        json_decref(sandbox->kernel);
        sandbox->kernel = json_incref(status->kernel);
    }
    if (sandbox->state == SANDBOX_ADOPTING) {
        adopt_status(sandbox, status);
    } else if (sandbox_live(sandbox) && usable(status)) {
        follow_shim(sandbox, status);
    } else if (sandbox->state == SANDBOX_STARTING &&
               (status->state == SHIM_IS_READY || status->state == SHIM_IS_BUSY)) {
        kernel_is_ready(sandbox, status);
    } else if ((sandbox->state == SANDBOX_WARM || sandbox->state == SANDBOX_ADAPTING) &&
               (status->state != SHIM_IS_READY || status->execution_count || status->queued ||
                status->commands)) {
        lose(sandbox, "it did not just wait");
    }
    /* The rest changes nothing here: "new" and "starting" come first, and SHIM_DEAD follows "dead". */
}

static void on_lost(const char *reason, void *user)
{
    lose(user, reason);
}

static int connect_shim(struct sandbox *sandbox, struct failure *why)
{
    char path[PATH_MAX];
    struct service *service = sandbox->service;
    struct shim_events events = {.status = on_status,
                                 .lost = on_lost,
                                 .wanted = packages_wanted,
                                 .unwanted = packages_unwanted,
                                 .user = sandbox};
    int r = format_text(path, sizeof path, "%s/" SHIM_SOCKET_DIR "/%s", service->config->state,
                        sandbox->text);
    if (r < 0)
        return fail(why, r, "socket of the shim");
    return shim_client_connect(service->loop, path, &events, &sandbox->shim, why);
}

static void start_kernel(struct sandbox *sandbox)
{
    struct failure why;
    sandbox_set_state(sandbox, SANDBOX_STARTING);
    int r = connect_shim(sandbox, &why);
    if (r < 0) {
        fail_creation(sandbox, PROBLEM_CREATE_FAILED, why.text);
        return;
    }
    (void)shim_client_tell(sandbox->shim, SHIM_START, sandbox->start, strlen(sandbox->start));
    free(TAKE_POINTER(sandbox->start));
    timer_arm(sandbox->timer, START_SECONDS * 1000);
}

static void created(const struct keeper_message *message, void *user)
{
    struct sandbox *sandbox = user;
    sandbox->create_asked = false;
    if (sandbox->state == SANDBOX_CLOSING) {
        ask_keeper(sandbox, KEEPER_REMOVE, removed);
        return;
    }
    static const int passing[] = {EAGAIN, ENOSPC, ENOMEM, EMFILE, ENFILE, ECONNRESET, ETIMEDOUT};
    enum problem_kind kind = PROBLEM_CREATE_FAILED;
    for (size_t i = 0; i < ARRAY_LENGTH(passing); i++) {
        if (message->status == -passing[i])
            kind = PROBLEM_CREATE_UNAVAILABLE;
    }
    if (message->status < 0)
        fail_creation(sandbox, kind, *message->text ? message->text : strerror(-message->status));
    else
        start_kernel(sandbox);
}

struct sandbox *sandbox_of_slot(struct slot *slot)
{
    return (struct sandbox *)(void *)((char *)slot - offsetof(struct sandbox, slot));
}

static void slot_granted(struct slot *slot)
{
    struct sandbox *sandbox = sandbox_of_slot(slot);
    sandbox_set_state(sandbox, SANDBOX_CREATING);
    sandbox->with_keeper = true;
    sandbox->create_asked = true;
    ask_keeper(sandbox, KEEPER_CREATE, created);
}

static char *start_message(const struct record *record, json_t *env, uint64_t link_seconds)
{
    json_t *message =
        json_pack("{s:o, s:I, s:o}", "env", env ? json_incref(env) : json_object(), "link_seconds",
                  (json_int_t)link_seconds, "record", record_to_json(record));
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
    json_decref(message);
    return text;
}

static struct sandbox *sandbox_new(struct service *service, struct id id, enum sandbox_state state)
{
    struct sandbox *sandbox = must_alloc(sizeof *sandbox);
    sandbox->service = service;
    sandbox->id = id;
    id_format(id, sandbox->text);
    sandbox->state = state;
    sandbox->slot.granted = slot_granted;
    sandbox->used_ms = now_ms();
    sandbox->timer = timer_add(service->loop, timer_fired, sandbox);
    return sandbox;
}

/* --- taking a warm one -------------------------------------------------------------------------- */

/* From here on it is somebody's. In this order, see pool.h. */
static void give(struct sandbox *warm, const struct record *record)
{
    struct service *service = warm->service;
    struct link_key key = warm->record.link_key;
    set_record(warm, record);
    warm->record.link_key = key;
    seal_set(&service->seal_key, warm->id, &warm->record);
    tell_record(warm);
    pool_left(service->pool, warm);
    pool_gone(service->pool);
    if (*record->name)
        registry_add_name(service->registry, warm);
    sandbox_set_state(warm, SANDBOX_READY);
    warm->used_ms = now_ms();
    timer_arm(warm->timer, expiry_left_ms(warm, up_seconds(), warm->used_ms));
    audit_created(warm);
}

/* `from` was never more than a place in line. */
void sandbox_inherit(struct sandbox *from, struct sandbox *warm)
{
    struct record record = from->record;
    struct sandbox_waiter made = from->made;
    slots_release(&from->service->creations, &from->slot);
    registry_remove(from->service->registry, from, ENDED_UNMADE);
    sandbox_free(from);
    give(warm, &record);
    answer(warm, &made, NULL);
}

/* --- asking for one ----------------------------------------------------------------------------- */

/* In the registry, but not in line yet. NULL: out of memory. */
static struct sandbox *add_new(struct service *service, const struct record *record, json_t *env,
                               struct sandbox_waiter made)
{
    struct record own = *record;
    struct id id = id_new();
    own.link_key = link_key_new();
    seal_set(&service->seal_key, id, &own);
    char *start = start_message(&own, env, service->config->link_seconds);
    if (!start)
        return NULL;
    struct sandbox *sandbox = sandbox_new(service, id, SANDBOX_QUEUED);
    set_record(sandbox, &own);
    sandbox->start = start;
    sandbox->made = made;
    registry_add(service->registry, sandbox);
    return sandbox;
}

struct sandbox *sandbox_create(struct service *service, const struct record *record, json_t *env,
                               struct sandbox_waiter made, struct problem *problem)
{
    husk_assert(*record->owner);
    if (quota_refuses_sandbox(service, record, problem))
        return NULL;
    struct sandbox *warm = json_object_size(env) ? NULL : pool_take(service->pool, &record->limits);
    if (warm && same_limits(&warm->record.limits, &record->limits)) {
        give(warm, record);
        return warm;
    }
    if (!warm)
        pool_make_room(service->pool);
    struct sandbox *sandbox = add_new(service, record, env, made);
    if (!sandbox) {
        problem_set(problem, PROBLEM_OUT_OF_MEMORY, "huskd is out of memory. Try again later.");
        return NULL;
    }
    sandbox->plain = json_object_size(env) == 0;
    if (warm)
        handover_begin(warm, sandbox);
    else
        slots_take(&service->creations, &sandbox->slot);
    return sandbox;
}

bool sandbox_warm_up(struct service *service, const struct record *record,
                     struct sandbox_waiter made)
{
    struct sandbox *sandbox = add_new(service, record, NULL, made);
    if (!sandbox)
        return false;
    pool_entered(service->pool, sandbox);
    slots_take(&service->creations, &sandbox->slot);
    return true;
}

void sandbox_adopt(struct service *service, struct id id, const struct sandbox_limits *limits,
                   struct sandbox_waiter made)
{
    struct failure why;
    struct sandbox *sandbox = sandbox_new(service, id, SANDBOX_ADOPTING);
    /* Until its shim tells the right one: no key is one that everybody knows. */
    sandbox->record.link_key = link_key_new();
    sandbox->record.limits = *limits;
    sandbox->with_keeper = true;
    sandbox->made = made;
    registry_add(service->registry, sandbox);
    if (connect_shim(sandbox, &why) < 0) {
        lose(sandbox, why.text);
        return;
    }
    (void)shim_client_tell(sandbox->shim, SHIM_HELLO, "", 0);
    timer_arm(sandbox->timer, ADOPT_SECONDS * 1000);
}

/* --- being used --------------------------------------------------------------------------------- */

int sandbox_call(struct sandbox *sandbox, enum shim_type type, const struct shim_request *request,
                 uint64_t *ret_tag)
{
    husk_assert(sandbox_live(sandbox));
    if ((type == SHIM_EXECUTE || type == SHIM_COMMAND) && quota_refuses_execution(sandbox))
        return -EDQUOT;
    sandbox->used_ms = now_ms();
    return shim_client_call(sandbox->shim, type, request, ret_tag);
}

void sandbox_credit_call(struct sandbox *sandbox, uint64_t tag, size_t bytes)
{
    sandbox->used_ms = now_ms();
    if (sandbox->shim)
        shim_client_credit(sandbox->shim, tag, bytes);
}

void sandbox_forget_call(struct sandbox *sandbox, uint64_t tag)
{
    if (sandbox->shim)
        shim_client_forget(sandbox->shim, tag);
}

void sandbox_used(struct sandbox *sandbox)
{
    sandbox->used_ms = now_ms();
}

void sandbox_extend(struct sandbox *sandbox, uint64_t ttl_seconds)
{
    record_expire_in(&sandbox->record, (int64_t)ttl_seconds);
    sandbox->used_ms = now_ms();
    timer_arm(sandbox->timer, expiry_left_ms(sandbox, up_seconds(), now_ms()));
    tell_record(sandbox);
}

void sandbox_forget_all(struct service *service)
{
    struct problem problem;
    problem_set(&problem, PROBLEM_SHUTTING_DOWN, "huskd is stopping.");
    for (struct sandbox *s; (s = registry_first(service->registry));) {
        keeper_client_forget(service->keeper, s->keeper_tag);
        packages_end(s, &problem);
        shim_client_close(s->shim, &problem);
        registry_remove(service->registry, s, ENDED_UNMADE);
        if (of_the_pool(s))
            pool_forget(service->pool, s);
        sandbox_free(s);
    }
}
