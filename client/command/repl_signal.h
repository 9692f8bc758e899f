/* Signals of the prompt, as bytes in a pipe: whoever waits for something else, too, can wait for them. The handlers do nothing but write. One taker at a time:
 * the editor while it edits, the interrupter while a cell runs. */
#pragma once

#include <stdbool.h>

/* SIGINT, SIGWINCH, SIGTERM, SIGHUP and SIGQUIT come here from now on; SIGPIPE is ignored. 0 or -errno. */
int signals_begin(void);
/* As it was before. */
void signals_end(void);
/* SIGTSTP, too, or no longer: only the editor has a terminal that must be put right before the program stops. */
void signals_catch_stop(bool on);

int signals_descriptor(void); /* readable: one has come */
int signals_take(void);       /* its number; 0: none has come */
/* The one that asked the program to end; 0: none did. */
int signals_ended(void);
