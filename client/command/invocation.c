#include "command/exit_status.h"
#include "command/verb.h"
#include "husk.h"

struct husk *invocation_client(const struct invocation *invocation)
{
    struct husk *husk;
    struct husk_error error;
    struct husk_options options = {.url = invocation->url, .api_key = invocation->api_key};
    if (husk_new(&options, &husk, &error) < 0) {
        (void)exit_with_error(&error);
        return NULL;
    }
    return husk;
}
