/* How often the host killed something in the sandbox because its memory was used up. */
#pragma once

#include <stdint.h>

/* From `memory.events` (cgroup v2) or `memory.oom_control` (v1), read anew; 0 if it does not say.
 */
uint64_t oom_kills(int fd);
/* The same from the text of such a file. */
uint64_t oom_kills_in(const char *text);
