/* Ctrl-C, Ctrl-\, SIGTERM and SIGHUP: what runs is cancelled, then the program cleans up and ends. Who does not want to wait for that presses Ctrl-C twice
 * more. */
#pragma once

struct husk;

/* From now on signals are caught, and writing to a pipe that nobody reads is an error and not the end. */
void interruption_catch(void);
/* Whose call ends when a signal comes; NULL: nobody's, it is only remembered. Borrowed. */
void interruption_cancels(struct husk *husk);
/* Readable since the first signal: for whoever waits for something else, too. -1: they are not caught. */
int interruption_descriptor(void);
/* The signal that came; 0: none did. */
int interruption_signal(void);
/* The exit status that it makes, as a shell says it: 130 for Ctrl-C. */
int interruption_status(void);
