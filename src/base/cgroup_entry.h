/* How a process moves itself into a cgroup. */
#pragma once

/* Into the cgroup whose directory this is, v1 or v2. The caller must have one thread only. 0 or -errno. */
int cgroup_enter(int directory);
