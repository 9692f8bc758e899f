#include "huskd/privileges.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int clear_capabilities(struct failure *why)
{
    for (unsigned long capability = 0; capability < 64; capability++) {
        /* EINVAL: this kernel has fewer; EPERM: we never had the right to. */
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0 && errno != EINVAL && errno != EPERM)
            return fail(why, errno, "drop capability %lu", capability);
    }
    return 0;
}

static int set_no_capabilities(struct failure *why)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    if (syscall(SYS_capset, &header, none) < 0)
        return fail(why, errno, "clear capabilities");
    return 0;
}

int privileges_drop_capabilities(struct failure *why)
{
    int r = clear_capabilities(why);
    if (r == 0)
        r = set_no_capabilities(why);
    if (r == 0 &&
        (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0))
        r = fail(why, errno, "give up the right to gain privileges");
    return r;
}

static int become(uid_t uid, struct failure *why)
{
    gid_t gid = (gid_t)uid;
    int r = clear_capabilities(why);
    if (r < 0)
        return r;
    if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return fail(why, errno, "become user %u", (unsigned)uid);
    return set_no_capabilities(why);
}

static int check(uid_t uid, struct failure *why)
{
    uid_t real, effective, saved;
    gid_t real_group, effective_group, saved_group;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3];
    if (getresuid(&real, &effective, &saved) < 0 ||
        getresgid(&real_group, &effective_group, &saved_group) < 0 ||
        syscall(SYS_capget, &header, held) < 0)
        return fail(why, errno, "check privileges");
    bool ids = real == uid && effective == uid && saved == uid && real_group == uid &&
               effective_group == uid && saved_group == uid;
    bool capabilities = held[0].permitted || held[0].effective || held[0].inheritable ||
                        held[1].permitted || held[1].effective || held[1].inheritable;
    if (!ids || capabilities || getgroups(0, NULL) != 0 || setresuid(0, 0, 0) == 0)
        return fail_plain(why, EPERM, "privileges are still there after they were given up");
    return 0;
}

int privileges_drop(uid_t uid, struct failure *why)
{
    if (geteuid() == 0) {
        int r = become(uid, why);
        if (r == 0)
            r = check(uid, why);
        if (r < 0)
            return r;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return fail(why, errno, "give up the right to gain privileges");
    return 0;
}
