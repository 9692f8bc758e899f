#include "base/cgroup_entry.h"

#include <errno.h>

#include "base/fdio.h"

/* v1 moves the calling thread if that is what it is told. To move a process it keeps every process of the machine from forking
 * and ending meanwhile, and before that waits for an RCU grace period: 4 to 10 ms. v2 has no such file for this. */
int cgroup_enter(int directory)
{
    int r = write_file_at(directory, "tasks", "0");
    return r == -ENOENT ? write_file_at(directory, "cgroup.procs", "0") : r;
}
