/* Pipes that processes in the background still hold when their command is over: what they write is read and thrown away, so
 * that a server that was started with "&" is not killed by its next line. At a modest pace, as nobody wants it; and of
 * MAX_LEFTOVERS pipes, then the oldest is closed. Loop thread. */
#pragma once

#include "loop/loop.h"

struct leftovers;

struct leftovers *leftovers_new(struct loop *loop);
struct leftovers *leftovers_free(struct leftovers *leftovers); /* NULL ok, returns NULL */
/* Takes the reading end of a pipe, which does not block. */
void leftovers_add(struct leftovers *leftovers, int fd);
