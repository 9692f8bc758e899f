#include "mcp/catalog.h"

#include "base/attributes.h"

static bool has_none(struct mcp_call *call _unused_, const char *name _unused_)
{
    return false;
}

static bool watches_none(const char *uri _unused_)
{
    return false;
}

static bool has_no_prompt(struct mcp_call *call _unused_, const char *name _unused_,
                          const json_t *arguments _unused_)
{
    return false;
}

const struct mcp_catalog mcp_catalog = {.resources = "",
                                        .templates = "",
                                        .prompts = "",
                                        .read_resource = has_none,
                                        .has_resource = watches_none,
                                        .get_prompt = has_no_prompt};
