/* `husk repl` without a terminal: lines of standard input are cut into cells, one for each statement at the left edge, and run one after the
 * other, as `husk exec` would. Lines that input() takes are not code. */
#pragma once

struct session;
struct execute_options;

/* The exit status of the last cell, or why there was no more. `options` say how they run; its code is not looked at. */
int batch_run(struct session *session, const char *sandbox, struct execute_options *options);
