#include "huskd/audit.h"

#include "base/clock.h"
#include "base/log.h"
#include "husk/limits.h"
#include "huskd/caller.h"
#include "huskd/sandbox.h"

static const char *or_none(const char *text)
{
    return *text ? text : NULL;
}

void audit_created(const struct sandbox *sandbox)
{
    log_event(LOG_INFO, "sandbox created", "audit", "created", "sandbox", sandbox->text, "name",
              or_none(sandbox->record.name), "owner", sandbox->record.owner, NULL);
}

void audit_ended(const struct sandbox *sandbox)
{
    const struct caller *by = sandbox->closed.by;
    log_event(*sandbox->record.recipe ? LOG_DEBUG : LOG_INFO, "sandbox ended", "audit", "ended",
              "sandbox", sandbox->text, "name", or_none(sandbox->record.name), "owner",
              or_none(sandbox->record.owner), "why", ending_name(sandbox->ending), "by",
              by ? by->name : NULL, "detail",
              sandbox->ending == ENDED_CLOSED ? NULL : sandbox->problem.detail, NULL);
}

void audit_disowned(const struct sandbox *sandbox, const char *owner, const char *name)
{
    log_event(LOG_WARNING,
              "nobody can tell whose sandbox this is: its record was changed, or the state "
              "directory; it is the admin's now",
              "audit", "disowned", "sandbox", sandbox->text, "claimed_owner", owner, "claimed_name",
              or_none(name), NULL);
}

bool audit_may_tell(struct audit_limit *limit, size_t *ret_unsaid)
{
    static const struct allowance_rate rate = {.per_second = STRANGER_LINES_PER_SECOND,
                                               .burst = STRANGER_LINES_AT_ONCE};
    if (!allowance_take(&limit->allowance, rate, now_ms(), NULL)) {
        limit->unsaid++;
        return false;
    }
    *ret_unsaid = limit->unsaid;
    limit->unsaid = 0;
    return true;
}

void audit_keys(size_t count, const char *reason)
{
    log_event(reason ? LOG_ERROR : LOG_INFO,
              reason ? "the keys could not be read; the old ones stay" : "read the keys", "audit",
              "keys", "count", reason ? NULL : log_number((int64_t)count), "reason", reason, NULL);
}

void audit_tls(const char *reason)
{
    log_event(reason ? LOG_ERROR : LOG_INFO,
              reason ? "the certificate could not be read; the old one stays"
                     : "read the certificate",
              "audit", "tls", "reason", reason, NULL);
}
