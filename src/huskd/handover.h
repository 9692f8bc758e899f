/* A warm sandbox takes the place of one that somebody asked for and that is still QUEUED.
 *
 * With the same limits at once. Otherwise the keeper is asked to change those of the warm one, which is ADAPTING meanwhile; the
 * other has left the line, and each is the other's `partner`. Then:
 *   the keeper did it                  the warm one takes the place
 *   it could not, nothing has changed  the warm one is WARM again; the other gets in line, and is not offered another
 *   nobody knows (the keeper died)     the warm one is removed; the other gets in line, as above
 *   the warm one ends                  the other gets in line
 *   who asked goes away                the warm one is removed when the keeper has answered: its limits are not the pool's
 *
 * Owner: the loop thread. */
#pragma once

struct sandbox;
struct service;

/* `warm` is WARM; `to` is QUEUED and `plain`, in line or not. */
void handover_begin(struct sandbox *warm, struct sandbox *to);
/* One of the two ends. Does nothing if it has no partner. */
void handover_break_off(struct sandbox *sandbox);
/* Who has waited longest for a sandbox that a warm one could be, or NULL. */
struct sandbox *handover_first_in_line(const struct service *service);
