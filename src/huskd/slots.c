#include "huskd/slots.h"

#include <stddef.h>

#include "base/failure.h"

static void leave_line(struct slots *slots, struct slot *slot)
{
    if (slot->previous)
        slot->previous->next = slot->next;
    else
        slots->first = slot->next;
    if (slot->next)
        slot->next->previous = slot->previous;
    else
        slots->last = slot->previous;
    slot->next = slot->previous = NULL;
    slots->waiting--;
}

static void serve(struct slots *slots)
{
    while (slots->first && slots->held < slots->limit) {
        struct slot *slot = slots->first;
        leave_line(slots, slot);
        slots->held++;
        slot->state = SLOT_HELD;
        slot->granted(slot);
    }
}

void slots_take(struct slots *slots, struct slot *slot)
{
    husk_assert(slot->state == SLOT_NONE);
    slot->state = SLOT_WAITING;
    slot->previous = slots->last;
    if (slots->last)
        slots->last->next = slot;
    else
        slots->first = slot;
    slots->last = slot;
    slots->waiting++;
    serve(slots);
}

void slots_release(struct slots *slots, struct slot *slot)
{
    if (slot->state == SLOT_NONE)
        return;
    if (slot->state == SLOT_WAITING) {
        leave_line(slots, slot);
        slot->state = SLOT_NONE;
        return;
    }
    slot->state = SLOT_NONE;
    slots->held--;
    serve(slots);
}
