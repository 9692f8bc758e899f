#include "mcp/view.h"

#include "base/attributes.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "mcp/call.h"
#include "mcp/mcp.h"

bool view_has(const struct mcp_call *call _unused_, const struct sandbox *sandbox)
{
    return sandbox_live(sandbox);
}

struct sandbox *view_find(const struct mcp_call *call, const char *reference,
                          struct problem *problem)
{
    return service_find(call->mcp->service, reference, problem);
}
