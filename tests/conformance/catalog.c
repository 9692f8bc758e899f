/* What the conformance suite of MCP expects a server to have (its names, its texts): linked into build/huskd-conformance in place of
 * src/mcp/catalog.c, and into nothing that users get. */
#include "mcp/catalog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/memory.h"
#include "base/text.h"
#include "huskd/service.h"
#include "loop/loop.h"
#include "mcp/call.h"
#include "mcp/mcp.h"
#include "mcp/tools.h"

/* One pixel, and a fraction of a second of silence. */
#define PNG                                                                                        \
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJg" \
    "gg=="
#define WAV "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="

#define TEXT(text) "{\"type\":\"text\",\"text\":\"" text "\"}"
#define IMAGE      "{\"type\":\"image\",\"data\":\"" PNG "\",\"mimeType\":\"image/png\"}"
#define EMBEDDED(uri, type, text)                                                                  \
    "{\"type\":\"resource\",\"resource\":{\"uri\":\"" uri "\",\"mimeType\":\"" type                \
    "\",\"text\":\"" text "\"}}"

static void answer(struct mcp_call *call, const char *members)
{
    call_answer_members(call, members, strlen(members));
}

/* --- tools -------------------------------------------------------------------------------------- */

#define DEFINITION(text)                                                                           \
    "{\"description\":\"" text "\",\"inputSchema\":{\"type\":\"object\",\"properties\":{}}}"

/* A tool that always says the same. */
#define SAYING(symbol, members)                                                                    \
    static void run_##symbol(struct mcp_call *call, json_t *arguments _unused_)                    \
    {                                                                                              \
        answer(call, members);                                                                     \
    }                                                                                              \
    static const struct mcp_tool symbol = {                                                        \
        .name = "test_" #symbol, .definition = DEFINITION("For the suite."), .run = run_##symbol}

SAYING(simple_text, "\"content\":[" TEXT("This is a simple text response for testing.") "]");
SAYING(image_content, "\"content\":[" IMAGE "]");
SAYING(audio_content,
       "\"content\":[{\"type\":\"audio\",\"data\":\"" WAV "\",\"mimeType\":\"audio/wav\"}]");
SAYING(embedded_resource, "\"content\":[" EMBEDDED("test://embedded-resource", "text/plain",
                                                   "This is an embedded resource content.") "]");
SAYING(multiple_content_types,
       "\"content\":[" TEXT("Multiple content types test:") "," IMAGE "," EMBEDDED(
           "test://mixed-content-resource", "application/json",
           "{\\\"test\\\":\\\"data\\\",\\\"value\\\":123}") "]");
SAYING(error_handling,
       "\"content\":[" TEXT(
           "This tool intentionally returns an error for testing") "],\"isError\":true");
SAYING(logging_tool, "\"content\":[" TEXT("Nothing was logged.") "]");

static void run_missing_capability(struct mcp_call *call, json_t *arguments _unused_)
{
    answer(call, "\"content\":[" TEXT("The client has sampling.") "]");
}
static const struct mcp_tool missing_capability = {.name = "test_missing_capability",
                                                   .definition = DEFINITION("Needs sampling."),
                                                   .run = run_missing_capability,
                                                   .needs = "sampling"};

/* --- progress ----------------------------------------------------------------------------------- */

enum {
    STEP_MS = 50,
    STEPS = 3
};

struct steps {
    struct mcp_call *call;
    struct timer *timer;
    int done;
};

static void end_steps(struct mcp_call *call)
{
    struct steps *steps = call->own;
    timer_remove(steps->timer);
    free(steps);
}

static void step(struct timer *timer, void *user)
{
    struct steps *steps = user;
    struct mcp_call *call = steps->call;
    char members[64];
    if (steps->done == STEPS) {
        end_steps(call);
        answer(call, "\"content\":[" TEXT("Done.") "]");
        return;
    }
    (void)snprintf(members, sizeof members, "\"progress\":%d,\"total\":100", steps->done++ * 50);
    call_progress(call, members, strlen(members));
    timer_arm(timer, STEP_MS);
}

static void run_progress(struct mcp_call *call, json_t *arguments _unused_)
{
    struct steps *steps = must_alloc(sizeof *steps);
    steps->call = call;
    steps->timer = timer_add(call->mcp->service->loop, step, steps);
    timer_arm(steps->timer, STEP_MS);
    call->own = steps;
    call_wait(call, end_steps);
}
static const struct mcp_tool with_progress = {.name = "test_tool_with_progress",
                                              .definition = DEFINITION("Takes a while."),
                                              .run = run_progress};

/* --- a schema that has everything --------------------------------------------------------------- */

/* clang-format off */
static const struct mcp_tool json_schema = {
    .name = "json_schema_2020_12_tool",
    .run = run_simple_text,
    .definition = JSON({
        "description": "Its schema uses what JSON Schema 2020-12 has.",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"}
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": false
        }
    }),
};
/* clang-format on */

static const struct mcp_tool *const tools[] = {
    &simple_text,       &image_content,          &audio_content,
    &embedded_resource, &multiple_content_types, &error_handling,
    &logging_tool,      &missing_capability,     &with_progress,
    &json_schema,
};

/* --- resources ---------------------------------------------------------------------------------- */

static bool read_template(struct mcp_call *call, const char *uri)
{
    char id[32];
    if (sscanf(uri, "test://template/%31[^/]/data", id) != 1)
        return false;
    json_t *text =
        json_sprintf("{\"id\":\"%s\",\"templateTest\":true,\"data\":\"Data for ID: %s\"}", id, id);
    call_answer(call, json_pack("{s:[{s:s, s:s, s:o}]}", "contents", "uri", uri, "mimeType",
                                "application/json", "text", text));
    return true;
}

static bool read_resource(struct mcp_call *call, const char *uri)
{
    if (strcmp(uri, "test://static-text") == 0)
        answer(call,
               "\"contents\":[{\"uri\":\"test://static-text\",\"mimeType\":\"text/plain\",\"text\":"
               "\"This is the content of the static text resource.\"}]");
    else if (strcmp(uri, "test://static-binary") == 0)
        answer(call, "\"contents\":[{\"uri\":\"test://static-binary\",\"mimeType\":\"image/png\","
                     "\"blob\":\"" PNG "\"}]");
    else
        return read_template(call, uri);
    return true;
}

static bool has_resource(const char *uri)
{
    return strcmp(uri, "test://watched-resource") == 0;
}

/* --- prompts ------------------------------------------------------------------------------------ */

static const char *argument(const json_t *arguments, const char *name)
{
    const char *value = json_string_value(json_object_get(arguments, name));
    return value ? value : "";
}

static bool get_prompt(struct mcp_call *call, const char *name, const json_t *arguments)
{
    if (strcmp(name, "test_simple_prompt") == 0)
        answer(call, "\"messages\":[{\"role\":\"user\",\"content\":" TEXT(
                         "This is a simple prompt for testing.") "}]");
    else if (strcmp(name, "test_prompt_with_image") == 0)
        answer(call,
               "\"messages\":[{\"role\":\"user\",\"content\":" IMAGE
               "},{\"role\":\"user\",\"content\":" TEXT("Please analyze the image above.") "}]");
    else if (strcmp(name, "test_prompt_with_arguments") == 0)
        call_answer(call, json_pack("{s:[{s:s, s:{s:s, s:o}}]}", "messages", "role", "user",
                                    "content", "type", "text", "text",
                                    json_sprintf("Prompt with arguments: arg1='%s', arg2='%s'",
                                                 argument(arguments, "arg1"),
                                                 argument(arguments, "arg2"))));
    else if (strcmp(name, "test_prompt_with_embedded_resource") == 0)
        call_answer(call,
                    json_pack("{s:[{s:s, s:{s:s, s:{s:s, s:s, s:s}}}, {s:s, s:{s:s, s:s}}]}",
                              "messages", "role", "user", "content", "type", "resource", "resource",
                              "uri", argument(arguments, "resourceUri"), "mimeType", "text/plain",
                              "text", "Embedded resource content for testing.", "role", "user",
                              "content", "type", "text", "text",
                              "Please process the embedded resource above."));
    else
        return false;
    return true;
}

/* clang-format off */
const struct mcp_catalog mcp_catalog = {
    .tools = tools,
    .tool_count = ARRAY_LENGTH(tools),
    .resources = JSON(
        {"uri": "test://static-text", "name": "Static text", "mimeType": "text/plain"},
        {"uri": "test://static-binary", "name": "Static binary", "mimeType": "image/png"}
    ),
    .templates = JSON({"uriTemplate": "test://template/{id}/data", "name": "Template", "mimeType": "application/json"}),
    .prompts = JSON(
        {"name": "test_simple_prompt", "description": "Simple"},
        {"name": "test_prompt_with_arguments", "description": "With arguments", "arguments": [{"name": "arg1", "required": true}, {"name": "arg2", "required": true}]},
        {"name": "test_prompt_with_embedded_resource", "description": "With a resource", "arguments": [{"name": "resourceUri", "required": true}]},
        {"name": "test_prompt_with_image", "description": "With an image"}
    ),
    .read_resource = read_resource,
    .has_resource = has_resource,
    .get_prompt = get_prompt,
};
/* clang-format on */
