#include "huskd/expiry.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "huskd/keeper_client.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "loop/loop.h"

enum {
    LONGEST_WAIT_SECONDS = 24 * 3600,
    SWEEP_MS = 3600 * 1000
};

uint64_t expiry_left_ms(const struct sandbox *sandbox, int64_t up, uint64_t now)
{
    const struct record *record = &sandbox->record;
    if (record->expires_up <= up)
        return 0;
    int64_t seconds = record->expires_up - up;
    if (seconds > LONGEST_WAIT_SECONDS)
        seconds = LONGEST_WAIT_SECONDS;
    uint64_t left = (uint64_t)seconds * 1000;
    if (record->idle_seconds == 0)
        return left;
    uint64_t idle = (uint64_t)record->idle_seconds * 1000;
    if (sandbox->state == SANDBOX_READY && sandbox->commands == 0)
        idle = sandbox->used_ms + idle > now ? sandbox->used_ms + idle - now : 0;
    return idle < left ? idle : left;
}

static void orphan_removed(const struct keeper_message *message, void *user _unused_)
{
    if (message->status < 0 && message->status != -ENOENT)
        log_event(LOG_ERROR, "a sandbox without owner could not be removed", "reason",
                  message->text, NULL);
}

static void remove_orphan(struct service *service, struct id id)
{
    char text[ID_TEXT_SIZE];
    struct keeper_message message = {.type = KEEPER_REMOVE};
    id_format(id, text);
    log_event(LOG_WARNING, "removing a sandbox without owner", "sandbox", text, NULL);
    memcpy(message.id, id.bytes, sizeof message.id);
    (void)keeper_client_ask(service->keeper, &message, orphan_removed, NULL);
}

/* Both sides must know it. */
static bool settled(const struct sandbox *sandbox)
{
    return sandbox_live(sandbox) || sandbox->state == SANDBOX_WARM;
}

static void bury_missing(struct service *service)
{
    struct sandbox *next;
    for (struct sandbox *s = registry_first(service->registry); s; s = next) {
        next = registry_next(s);
        if (!s->swept && settled(s)) {
            log_event(LOG_WARNING, "the keeper does not know a sandbox", "sandbox", s->text, NULL);
            sandbox_died(s);
        }
    }
}

static void take_entry(const struct keeper_message *message, void *user)
{
    struct service *service = user;
    bool last = !(message->flags & KEEPER_MORE);
    if (message->status == 0) {
        struct id id;
        memcpy(id.bytes, message->id, sizeof id.bytes);
        struct sandbox *sandbox = registry_find_id(service->registry, id);
        if (sandbox)
            sandbox->swept = true;
        else
            remove_orphan(service, id);
    }
    if (!last)
        return;
    service->sweeping = false;
    /* -ENOENT: the keeper has none at all. Any other failure says nothing about the sandboxes. */
    if (message->status == 0 || message->status == -ENOENT)
        bury_missing(service);
}

static void sweep_due(struct timer *timer _unused_, void *user)
{
    expiry_sweep(user);
}

void expiry_sweep(struct service *service)
{
    if (!service->sweep_timer)
        service->sweep_timer = timer_add(service->loop, sweep_due, service);
    timer_arm(service->sweep_timer, SWEEP_MS);
    if (service->sweeping)
        return;
    service->sweeping = true;
    /* Only those that were usable before the keeper was asked can be missing from its answer. */
    for (struct sandbox *s = registry_first(service->registry); s; s = registry_next(s))
        s->swept = !settled(s);
    struct keeper_message message = {.type = KEEPER_USAGE};
    (void)keeper_client_ask(service->keeper, &message, take_entry, service);
}
