#include "http/link_access.h"

#include <errno.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/link.h"
#include "http/request.h"
#include "huskd/registry.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "huskd/uri.h"

/* The sandbox that was asked for, live or not, and its key. */
static bool find_target(const struct request *request, struct link_target *target,
                        struct caller **ret_owner)
{
    const struct registry *registry = request->service->registry;
    struct id id;
    if (id_parse(request->parameter, &id) < 0)
        return false;
    const struct sandbox *sandbox = registry_find_id(registry, id);
    const struct tombstone *stone = sandbox ? NULL : registry_find_tombstone_id(registry, id);
    if (!sandbox && !stone)
        return false;
    *target = (struct link_target){.key = sandbox ? &sandbox->record.link_key : &stone->link_key,
                                   .id = id,
                                   .path = request_file_path(request)};
    *ret_owner = sandbox ? sandbox->owner : stone->owner;
    return true;
}

enum link_verdict link_access_judge(const struct request *request, struct caller **ret_owner)
{
    char expires[LINK_EXPIRES_TEXT_SIZE], signature[LINK_SIGNATURE_TEXT_SIZE];
    struct link_target target;
    *ret_owner = NULL;
    int has_expires = uri_query(request->query, "expires", expires, sizeof expires);
    int has_signature = uri_query(request->query, "signature", signature, sizeof signature);
    if (has_expires == 0 && has_signature == 0)
        return LINK_ABSENT;
    if (request->service->phase == SERVICE_STARTING)
        return LINK_GOOD;
    if (!find_target(request, &target, ret_owner))
        return LINK_ABSENT;
    if (has_expires <= 0 || has_signature <= 0)
        return LINK_WRONG;
    switch (link_check(&target, expires, signature, wall_seconds())) {
    case 0:
        return LINK_GOOD;
    case -ETIME:
        return LINK_EXPIRED;
    default:
        return LINK_WRONG;
    }
}
