#include "unit.h"

#include <sodium.h>

#include "mcp/era.h"
#include "mcp/rpc.h"

#define V    "'io.modelcontextprotocol/protocolVersion':"
#define C    "'io.modelcontextprotocol/clientCapabilities':{}"
#define META "'_meta':{" V "'2026-07-28'," C "}"

struct judged {
    bool good;
    enum mcp_era era;
    struct mcp_refusal refusal;
};

/* `text` is JSON with ' for ". */
static struct judged judge(const char *text, struct mcp_headers headers)
{
    char quoted[1024], fault[RPC_FAULT_SIZE];
    (void)snprintf(quoted, sizeof quoted, "{'jsonrpc':'2.0',%s}", text);
    for (char *c = quoted; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    json_auto_t *json = rpc_parse(quoted, strlen(quoted), fault);
    assert_non_null(json);
    struct rpc_message message = rpc_read(json);
    assert_int_not_equal(message.kind, RPC_INVALID);
    struct judged judged = {0};
    judged.good = era_judge(&message, &headers, &judged.era, &judged.refusal);
    return judged;
}

static void is(struct judged judged, enum mcp_era era)
{
    assert_true(judged.good);
    assert_int_equal(judged.era, era);
}

static void is_refused(struct judged judged, enum rpc_code code)
{
    assert_false(judged.good);
    assert_int_equal(judged.refusal.status, 400);
    assert_int_equal(judged.refusal.code, code);
    assert_true(*judged.refusal.text);
}

static const struct mcp_headers none = {0};
static const struct mcp_headers listing = {.version = "2026-07-28", .method = "tools/list"};

static void legacy(void **state)
{
    (void)state;
    is(judge("'id':1,'method':'tools/list'", none), MCP_LEGACY);
    is(judge("'id':1,'method':'tools/list'", (struct mcp_headers){.version = " 2025-06-18 "}),
       MCP_LEGACY);
    is(judge("'id':1,'method':'server/discover'", none), MCP_LEGACY);
    is(judge("'method':'notifications/initialized'", none), MCP_LEGACY);
    is_refused(judge("'id':1,'method':'ping'", (struct mcp_headers){.version = "1999-01-01"}),
               RPC_REFUSED);
    /* The first request of all knows no version yet, whatever a header says. */
    is(judge("'id':1,'method':'initialize'", (struct mcp_headers){.version = "2024-10-07"}),
       MCP_LEGACY);
    /* A method header is no mark of an era. */
    is(judge("'id':1,'method':'initialize'", (struct mcp_headers){.method = "initialize"}),
       MCP_LEGACY);
    is_refused(judge("'id':1,'method':'initialize'", (struct mcp_headers){.version = "2026-07-28"}),
               RPC_HEADER_MISMATCH);
}

static void modern(void **state)
{
    (void)state;
    is(judge("'id':1,'method':'tools/list','params':{" META "}", listing), MCP_MODERN);
    is(judge("'id':1,'method':'initialize','params':{" META "}",
             (struct mcp_headers){.version = "2026-07-28", .method = "initialize"}),
       MCP_MODERN);
    is(judge("'method':'notifications/cancelled','params':{" META "}", none), MCP_MODERN);
    is(judge("'method':'notifications/cancelled'", (struct mcp_headers){.version = "2026-07-28"}),
       MCP_MODERN);
    /* A transport of the legacy era carries nothing else. */
    is(judge("'id':1,'method':'tools/list','params':{" META "}",
             (struct mcp_headers){.handshake = true}),
       MCP_LEGACY);
}

static void envelopes(void **state)
{
    (void)state;
    is_refused(judge("'id':1,'method':'tools/list'", listing), RPC_INVALID_PARAMS);
    is_refused(judge("'id':1,'method':'tools/list','params':{'_meta':{" V "5," C "}}", listing),
               RPC_INVALID_PARAMS);
    is_refused(
        judge("'id':1,'method':'tools/list','params':{'_meta':{" V "'2026-07-28'}}", listing),
        RPC_INVALID_PARAMS);
}

static void versions(void **state)
{
    (void)state;
    struct judged judged =
        judge("'id':1,'method':'tools/list','params':{'_meta':{" V "'2025-11-25'," C "}}",
              (struct mcp_headers){.version = "2025-11-25"});
    is_refused(judged, RPC_UNSUPPORTED_VERSION);
    is_refused(judge("'id':1,'method':'tools/list','params':{'_meta':{" V "'v999'," C "}}",
                     (struct mcp_headers){.version = "v999"}),
               RPC_UNSUPPORTED_VERSION);
    assert_string_equal(era_negotiate("2025-03-26"), "2025-03-26");
    assert_string_equal(era_negotiate("2026-07-28"), "2025-11-25");
    assert_string_equal(era_negotiate(NULL), "2025-11-25");
    assert_null(era_legacy_version("2026-07-28"));
}

static struct judged call(const char *name, const char *header)
{
    char text[256];
    (void)snprintf(text, sizeof text,
                   "'id':1,'method':'tools/call','params':{'name':'%s'," META "}", name);
    return judge(text, (struct mcp_headers){
                           .version = "2026-07-28", .method = "tools/call", .name = header});
}

static void names(void **state)
{
    (void)state;
    is(call("run", "run"), MCP_MODERN);
    is(call("run", "\t run "), MCP_MODERN);
    is(call("run", "=?base64?cnVu?="), MCP_MODERN);
    is(call("=?base64?cnVu", "=?base64?cnVu"), MCP_MODERN); /* not encoded: it has no end */
    is_refused(call("run", NULL), RPC_HEADER_MISMATCH);
    is_refused(call("run", ""), RPC_HEADER_MISMATCH);
    is_refused(call("run", "Run"), RPC_HEADER_MISMATCH);
    is_refused(call("run", "=?base64?cnVu=?="), RPC_HEADER_MISMATCH);
    is_refused(call("run", "=?base64?cn*u?="), RPC_HEADER_MISMATCH);
    is_refused(call("run", "=?base64?"
                           "?="),
               RPC_HEADER_MISMATCH);
    is_refused(judge("'id':1,'method':'tools/list','params':{" META "}",
                     (struct mcp_headers){.version = "2026-07-28", .method = "TOOLS/LIST"}),
               RPC_HEADER_MISMATCH);
    is_refused(judge("'id':1,'method':'tools/list','params':{" META "}",
                     (struct mcp_headers){.version = "2026-07-28"}),
               RPC_HEADER_MISMATCH);
}

static void mended(void **state)
{
    (void)state;
    char cut[] = "gr\xc3\xbcn \xe2\x82", good[] = "grün €", none_at_all[] = "\xff\xfe";
    rpc_mend(cut);
    rpc_mend(good);
    rpc_mend(none_at_all);
    assert_string_equal(cut, "grün ??");
    assert_string_equal(good, "grün €");
    assert_string_equal(none_at_all, "??");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(legacy),   cmocka_unit_test(modern), cmocka_unit_test(envelopes),
        cmocka_unit_test(versions), cmocka_unit_test(names),  cmocka_unit_test(mended),
    };
    assert_true(sodium_init() >= 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
