/* What is offered beside the tools of the product: nothing. The conformance suite wants a server to have things of certain names;
 * the program that is tested with it is linked with another catalog.c (tests/conformance/), so that the product has no
 * such switch. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct mcp_call;
struct mcp_tool;

struct mcp_catalog {
    const struct mcp_tool *const *tools;
    size_t tool_count;
    /* JSON texts: elements of a list, joined by commas; "": none. */
    const char *resources, *templates, *prompts;
    bool (*has_resource)(const char *uri); /* that can be subscribed to */
    /* Answer, or false: it is not one of these. */
    bool (*read_resource)(struct mcp_call *call, const char *uri);
    bool (*get_prompt)(struct mcp_call *call, const char *name, const json_t *arguments);
};

extern const struct mcp_catalog mcp_catalog;
