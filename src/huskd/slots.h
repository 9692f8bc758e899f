/* At most so many at once, the others wait in line: how creations are kept from trampling each
 * other. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct slot {
    struct slot *next, *previous; /* in line */
    enum {
        SLOT_NONE,
        SLOT_WAITING,
        SLOT_HELD
    } state;
    void (*granted)(
        struct slot *slot); /* may be called from inside slots_take() and slots_release() */
};

struct slots {
    uint64_t limit;
    uint64_t held;
    uint64_t waiting;
    struct slot *first, *last;
};

/* Get in line; `granted` is called when it is this slot's turn. */
void slots_take(struct slots *slots, struct slot *slot);
/* Give the slot back, or leave the line. Does nothing if there is nothing to give. */
void slots_release(struct slots *slots, struct slot *slot);
