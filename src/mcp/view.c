#include "mcp/view.h"

#include "huskd/caller.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "mcp/call.h"
#include "mcp/mcp.h"

bool view_has(const struct mcp_call *call, const struct sandbox *sandbox)
{
    return sandbox_live(sandbox) && caller_may_see(call->caller, sandbox->owner);
}

struct sandbox *view_find(const struct mcp_call *call, const char *reference,
                          struct problem *problem)
{
    return service_find(call->mcp->service, call->caller, reference, problem);
}
