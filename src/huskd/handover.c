#include "huskd/handover.h"

#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "huskd/keeper_client.h"
#include "huskd/pool.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"

static struct sandbox *part(struct sandbox *sandbox)
{
    struct sandbox *partner = TAKE_POINTER(sandbox->partner);
    if (partner)
        partner->partner = NULL;
    return partner;
}

static void get_in_line(struct sandbox *sandbox)
{
    if (!sandbox)
        return;
    sandbox->plain = false;
    slots_take(&sandbox->service->creations, &sandbox->slot);
}

static void take_back(struct sandbox *warm)
{
    sandbox_become_warm(warm);
    pool_became_warm(warm->service->pool, warm);
}

static void adapted(const struct keeper_message *message, void *user)
{
    struct sandbox *warm = user;
    struct sandbox *heir = part(warm);
    if (message->status == 0 && heir) {
        sandbox_inherit(heir, warm);
        return;
    }
    if (message->status < 0)
        log_event(LOG_INFO, "a warm sandbox could not get other limits", "sandbox", warm->text,
                  "reason", message->text, NULL);
    if (message->status < 0 && message->flags & KEEPER_UNCHANGED)
        take_back(warm);
    else
        sandbox_abandon(warm);
    get_in_line(heir);
}

void handover_begin(struct sandbox *warm, struct sandbox *to)
{
    if (same_limits(&warm->record.limits, &to->record.limits)) {
        sandbox_inherit(to, warm);
        return;
    }
    slots_release(&to->service->creations, &to->slot);
    sandbox_set_state(warm, SANDBOX_ADAPTING);
    warm->partner = to;
    to->partner = warm;
    struct keeper_message message = {.type = KEEPER_ADAPT, .limits = to->record.limits};
    memcpy(message.id, warm->id.bytes, sizeof message.id);
    warm->keeper_tag = keeper_client_ask(warm->service->keeper, &message, adapted, warm);
}

void handover_break_off(struct sandbox *sandbox)
{
    struct sandbox *partner = part(sandbox);
    if (sandbox->state != SANDBOX_ADAPTING)
        return;
    keeper_client_forget(sandbox->service->keeper, sandbox->keeper_tag);
    get_in_line(partner);
}

struct sandbox *handover_first_in_line(const struct service *service)
{
    struct slot *slot = service->creations.first;
    while (slot && !sandbox_of_slot(slot)->plain)
        slot = slot->next;
    return slot ? sandbox_of_slot(slot) : NULL;
}
