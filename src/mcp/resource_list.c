#include "mcp/resource_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/id.h"
#include "base/memory.h"
#include "base/text.h"
#include "husk/limits.h"
#include "huskd/porter_client.h"
#include "huskd/registry.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "mcp/call.h"
#include "mcp/catalog.h"
#include "mcp/listing.h"
#include "mcp/mcp.h"
#include "mcp/session.h"
#include "mcp/view.h"

/* Where a page begins: with this entry of the sandbox that has this id, or the next one. As a cursor: "id.entry". */
struct place {
    struct id sandbox;
    size_t entry;
};

/* One page in the making: call->own. */
struct page {
    struct place at;       /* what comes next */
    bool first;            /* of all pages */
    size_t sandboxes;      /* that were asked for it */
    struct buffer entries; /* on one line */
    struct porter_client *porter;
    struct listing listing; /* of the sandbox whose turn it is */
};

static void page_free(void *own)
{
    struct page *page = own;
    porter_client_free(page->porter);
    listing_free(&page->listing);
    buffer_free(&page->entries);
    free(page);
}

static void cancel(struct mcp_call *call)
{
    struct page *page = call->own;
    porter_client_free(TAKE_POINTER(page->porter));
}

/* --- where ------------------------------------------------------------------------------------ */

static bool read_cursor(const json_t *cursor, struct place *ret)
{
    const char *text = json_string_value(cursor);
    size_t length = json_string_length(cursor);
    char id[ID_TEXT_SIZE] = "";
    uint64_t entry;
    if (length < ID_TEXT_SIZE || strlen(text) != length || text[ID_TEXT_SIZE - 1] != '.')
        return false;
    memcpy(id, text, ID_TEXT_SIZE - 1);
    if (id_parse(id, &ret->sandbox) < 0 ||
        parse_u64(text + ID_TEXT_SIZE, 0, MAX_LISTED_FILES, &entry) < 0)
        return false;
    ret->entry = (size_t)entry;
    return true;
}

/* A caller with a session sees those that it made, others see all that they may. */
static bool is_listed(const struct mcp_call *call, const struct sandbox *sandbox)
{
    return view_has(call, sandbox) && (!call->session || session_made(call->session, sandbox->id));
}

/* In the order of their ids: it stays the same, whatever comes and goes between two pages. */
static const struct sandbox *find_next(const struct mcp_call *call, const struct id *from)
{
    const struct registry *registry = call->mcp->service->registry;
    const struct sandbox *found = NULL;
    for (const struct sandbox *s = registry_first(registry); s; s = registry_next(s)) {
        if (is_listed(call, s) && memcmp(&s->id, from, sizeof *from) >= 0 &&
            (!found || memcmp(&s->id, &found->id, sizeof s->id) < 0))
            found = s;
    }
    return found;
}

/* Behind this sandbox. False: there is no larger id. */
static bool step(struct place *place)
{
    size_t i = ID_BYTES;
    place->entry = 0;
    while (i > 0 && ++place->sandbox.bytes[i - 1] == 0)
        i--;
    return i > 0;
}

/* --- the page ----------------------------------------------------------------------------------- */

static void answer(struct mcp_call *call, bool more)
{
    struct page *page = call->own;
    const char *own = page->entries.length ? buffer_text(&page->entries) : "";
    const char *fixed = page->first ? mcp_catalog.resources : "";
    _cleanup_buffer_ struct buffer members = {0};
    char id[ID_TEXT_SIZE];
    id_format(page->at.sandbox, id);
    int r = buffer_printf(&members, "\"resources\":[%s%s%s]", own ? own : "",
                          page->entries.length && *fixed ? "," : "", fixed);
    if (r == 0 && more)
        r = buffer_printf(&members, ",\"nextCursor\":\"%s.%zu\"", id, page->at.entry);
    if (r == 0)
        call_answer_members(call, members.data, members.length);
    else
        call_answer(call, NULL);
}

static void list_next(struct mcp_call *call);

/* This sandbox is done, or cannot be listed, or has ended meanwhile. */
static void go_on(struct mcp_call *call)
{
    struct page *page = call->own;
    porter_client_free(TAKE_POINTER(page->porter));
    listing_free(&page->listing);
    if (step(&page->at))
        list_next(call);
    else
        answer(call, false);
}

/* Too many jobs on folders at the same time: a list that leaves something out because of that would be wrong. */
static void refused(int error, void *user)
{
    struct mcp_call *call = user;
    const struct page *page = call->own;
    if (error != EBUSY && error != EUSERS)
        go_on(call);
    else if (page->entries.length > 0)
        answer(call, true);
    else
        call_fail(call, 200, RPC_INTERNAL_ERROR, NULL,
                  "Too many folders are being listed or copied. Try again in a moment.");
}

static void begun(const struct porter_begin *head _unused_, void *user _unused_)
{
}

static void data(const char *data, size_t length, void *user)
{
    struct mcp_call *call = user;
    struct page *page = call->own;
    listing_add(&page->listing, data, length);
}

static void ended(const struct porter_end *end, void *user)
{
    struct mcp_call *call = user;
    struct page *page = call->own;
    const char *entries;
    size_t length;
    if (end->status < 0)
        return go_on(call);
    if (listing_entries(&page->listing, &entries, &length) && length > 0) {
        if (page->entries.length > 0)
            (void)buffer_append_text(&page->entries, ",");
        (void)listing_append(&page->entries, entries, length);
        page->at.entry += listing_count(entries, length);
    }
    if (page->listing.cut && page->entries.length > 0)
        answer(call, true);
    else
        go_on(call);
}

static void list_next(struct mcp_call *call)
{
    const struct service *service = call->mcp->service;
    struct page *page = call->own;
    const struct sandbox *sandbox = find_next(call, &page->at.sandbox);
    if (!sandbox)
        return answer(call, false);
    if (!id_equal(sandbox->id, page->at.sandbox))
        page->at = (struct place){.sandbox = sandbox->id};
    if (page->sandboxes++ == MAX_MCP_PAGE_SANDBOXES ||
        page->entries.length >= MAX_MCP_LISTING_BYTES)
        return answer(call, true);
    struct porter_task task = {.sandbox = sandbox->id,
                               .job = PORTER_LIST,
                               .flags = PORTER_WHOLE_HOME | PORTER_RESOURCES,
                               .folder = ".",
                               .path = sandbox->text,
                               .archive = -1};
    struct porter_events events = {
        .refused = refused, .begun = begun, .data = data, .ended = ended, .user = call};
    page->listing = (struct listing){.limit = MAX_MCP_LISTING_BYTES - page->entries.length,
                                     .skip = page->at.entry};
    page->porter = porter_client_new(service->loop, service->keeper, &task, &events);
}

void resources_list(struct mcp_call *call)
{
    const json_t *cursor = json_object_get(call->params, "cursor");
    struct place from = {0};
    if (cursor && !read_cursor(cursor, &from))
        return call_fail(call, 200, RPC_INVALID_PARAMS, NULL, "This cursor is not one of ours.");
    struct page *page = must_alloc(sizeof *page);
    *page = (struct page){.at = from, .first = !cursor};
    call->own = page;
    call->own_free = page_free;
    call_wait(call, cancel);
    list_next(call);
}
