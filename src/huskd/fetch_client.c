#include "huskd/fetch_client.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/fdio.h"
#include "base/frame.h"
#include "base/memory.h"
#include "base/text.h"
#include "husk/fetch_protocol.h"
#include "husk/limits.h"
#include "huskd/config.h"
#include "huskd/keeper_client.h"
#include "huskd/package_source.h"
#include "huskd/requirement.h"
#include "huskd/service.h"
#include "loop/loop.h"

enum {
    PATIENCE_MS = 15 * 1000, /* beyond its own time */
    MAX_PROGRESS_LINE = 512
};

struct fetch {
    struct service *service;
    struct fetch_events events;
    struct slot slot;
    char *order;
    uint64_t keeper_tag; /* 0: not asked */
    struct frame_stream stream;
    struct source *source;
    struct timer *timer;
};

static void free_fetch(struct fetch *fetch)
{
    if (fetch->keeper_tag)
        keeper_client_forget(fetch->service->keeper, fetch->keeper_tag);
    fetch->source = source_remove(fetch->source);
    frame_stream_close(&fetch->stream);
    timer_remove(fetch->timer);
    slots_release(&fetch->service->fetches, &fetch->slot);
    free(fetch->order);
    free(fetch);
}

static void finish(struct fetch *fetch, json_t *packages, bool offline, const char *text)
{
    struct fetch_events events = fetch->events;
    free_fetch(fetch);
    events.done(packages, offline, text, events.user);
}

static void overdue(struct timer *timer _unused_, void *user)
{
    finish(user, NULL, false, "Fetching took too long.");
}

/* --- what it says ----------------------------------------------------------------------------- */

static bool hash_valid(const char *text)
{
    return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

static bool file_valid(const char *text)
{
    size_t length = strlen(text);
    return length > 4 && length <= MAX_WHEEL_NAME && !strcmp(text + length - 4, ".whl") &&
           *text != '.' && *text != '-' &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._+!") ==
               length;
}

static bool package_valid(const json_t *package)
{
    char normal[MAX_PACKAGE_NAME + 1];
    const char *name = json_string_value(json_object_get(package, "name"));
    const char *version = json_string_value(json_object_get(package, "version"));
    const char *sha256 = json_string_value(json_object_get(package, "sha256"));
    const char *file = json_string_value(json_object_get(package, "file"));
    return name && version && package_name_normal(name, strlen(name), normal) &&
           package_version_valid(version) && !sha256 == !file &&
           (!sha256 || (hash_valid(sha256) && file_valid(file)));
}

static void take_done(struct fetch *fetch, const char *payload, size_t length)
{
    json_auto_t *answer = json_loadb(payload, length, 0, NULL);
    json_t *packages = json_object_get(answer, "packages");
    size_t i;
    const json_t *package;
    bool valid = json_is_array(packages) && json_array_size(packages) <= MAX_INSTALL_PACKAGES;
    json_array_foreach(packages, i, package) valid = valid && package_valid(package);
    if (valid)
        finish(fetch, packages, json_is_true(json_object_get(answer, "offline")), NULL);
    else
        finish(fetch, NULL, false, "The fetcher's answer makes no sense.");
}

static void redacted(struct fetch *fetch, const char *payload, size_t length, char *text)
{
    memcpy(text, payload, length);
    text[length] = '\0';
    if (strlen(text) != length || !utf8_valid(text, length))
        (void)snprintf(text, length + 1, "%s", "(a text that cannot be shown)");
    package_source_redact(fetch->service->package_source, text);
}

/* True: it goes on. */
static bool take_frame(struct fetch *fetch, const struct frame_header *header, const char *payload)
{
    char text[MAX_INSTALL_OUTPUT + 64];
    size_t length = header->length < MAX_INSTALL_OUTPUT ? header->length : MAX_INSTALL_OUTPUT;
    switch (header->type) {
    case FETCH_PROGRESS:
        if (length < MAX_PROGRESS_LINE) {
            redacted(fetch, payload, length, text);
            fetch->events.progress(text, fetch->events.user);
        }
        return true;
    case FETCH_DONE:
        take_done(fetch, payload, header->length);
        return false;
    case FETCH_FAILED:
        redacted(fetch, payload, utf8_cut(payload, length, length), text);
        finish(fetch, NULL, false, text);
        return false;
    default:
        finish(fetch, NULL, false, "The fetcher said something unknown.");
        return false;
    }
}

static void ready(struct source *source _unused_, uint32_t events, void *user)
{
    struct fetch *fetch = user;
    if (events & EPOLLOUT)
        (void)frame_flush(&fetch->stream);
    (void)source_set_events(fetch->source,
                            frame_wants_write(&fetch->stream) ? EPOLLIN | EPOLLOUT : EPOLLIN);
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    int r = frame_fill(&fetch->stream);
    struct frame_header header;
    const char *payload;
    while (r == 0 && (r = frame_next(&fetch->stream, &header, &payload, NULL)) > 0) {
        if (!take_frame(fetch, &header, payload))
            return;
        r = 0;
    }
    if (r < 0 && r != -EAGAIN)
        finish(fetch, NULL, false, "The fetcher ended unexpectedly; huskd's log may say why.");
}

/* --- beginning -------------------------------------------------------------------------------- */

static void started(int fd, void *user)
{
    struct fetch *fetch = user;
    fetch->keeper_tag = 0;
    if (fd < 0) {
        finish(fetch, NULL, false,
               fd == -ENOSYS
                   ? "Packages cannot be fetched: the keeper has no package cache; its log "
                     "says why."
                   : "Packages cannot be fetched now; try again in a moment.");
        return;
    }
    (void)set_nonblocking(fd, true);
    frame_stream_init(&fetch->stream, fd, MAX_FETCH_FRAME_BYTES, 2 * MAX_FETCH_FRAME_BYTES);
    fetch->source = source_add(fetch->service->loop, fd, EPOLLIN, ready, fetch);
    int r = fetch->source
                ? frame_send(&fetch->stream, FETCH_JOB, 0, fetch->order, strlen(fetch->order))
                : -errno;
    if (r == -ENOSPC || !fetch->source) {
        finish(fetch, NULL, false, "The request is too large for the fetcher.");
        return;
    }
    (void)source_set_events(fetch->source, EPOLLIN | EPOLLOUT);
    timer_arm(fetch->timer, fetch->service->config->package_seconds * 1000 + PATIENCE_MS);
}

static void granted(struct slot *slot)
{
    struct fetch *fetch = (struct fetch *)(void *)((char *)slot - offsetof(struct fetch, slot));
    fetch->keeper_tag = keeper_client_fetch(fetch->service->keeper, started, fetch);
}

struct fetch *fetch_begin(struct service *service, json_t *order, const struct fetch_events *events)
{
    const struct config *config = service->config;
    struct fetch *fetch = must_alloc(sizeof *fetch);
    *fetch = (struct fetch){.service = service, .events = *events, .stream = {.fd = -1}};
    fetch->slot.granted = granted;
    fetch->timer = timer_add(service->loop, overdue, fetch);
    package_source_describe(service->package_source, order);
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"max_bytes", config->package_max_mb * MIB},
                   {"cache_bytes", config->package_cache_mb * MIB},
                   {"timeout_ms", config->package_seconds * 1000}};
    for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++)
        (void)json_object_set_new(order, numbers[i].key,
                                  json_integer((json_int_t)numbers[i].value));
    fetch->order = json_dumps(order, JSON_COMPACT);
    husk_assert(fetch->order != NULL);
    slots_take(&service->fetches, &fetch->slot);
    return fetch;
}

void fetch_cancel(struct fetch *fetch)
{
    if (fetch)
        free_fetch(fetch);
}
