#include "huskd/registry.h"

#include <sodium.h>
#include <string.h>

#include "base/failure.h"
#include "base/memory.h"
#include "huskd/caller.h"
#include "huskd/sandbox.h"

enum {
    BUCKETS = 4096 /* a power of two */
};

struct registry {
    size_t count;
    struct sandbox *first, *last;
    struct sandbox *by_id[BUCKETS];
    struct sandbox *by_name[BUCKETS];
    unsigned char hash_key[crypto_shorthash_KEYBYTES]; /* names are chosen by strangers */
    struct tombstone *tombstones;                      /* a ring */
    size_t buried;                                     /* ever */
};

const char *ending_name(enum ending ending)
{
    static const char *const names[] = {[ENDED_CLOSED] = "closed",
                                        [ENDED_EXPIRED] = "expired",
                                        [ENDED_DIED] = "died",
                                        [ENDED_UNMADE] = "not made"};
    return names[ending];
}

struct registry *registry_new(void)
{
    struct registry *registry = must_alloc(sizeof *registry);
    registry->tombstones = must_alloc(MAX_TOMBSTONES * sizeof registry->tombstones[0]);
    crypto_shorthash_keygen(registry->hash_key);
    return registry;
}

struct registry *registry_free(struct registry *registry)
{
    if (!registry)
        return NULL;
    husk_assert(registry->count == 0);
    free(registry->tombstones);
    free(registry);
    return NULL;
}

/* Ids are random already. */
static size_t id_bucket(struct id id)
{
    return (size_t)(id.bytes[0] | id.bytes[1] << 8) % BUCKETS;
}

static size_t name_bucket(const struct registry *registry, const char *name)
{
    unsigned char hash[crypto_shorthash_BYTES];
    crypto_shorthash(hash, (const unsigned char *)name, strlen(name), registry->hash_key);
    return (size_t)(hash[0] | hash[1] << 8) % BUCKETS;
}

struct sandbox *registry_find_id(const struct registry *registry, struct id id)
{
    for (struct sandbox *s = registry->by_id[id_bucket(id)]; s; s = s->links.same_id_bucket) {
        if (id_equal(s->id, id))
            return s;
    }
    return NULL;
}

/* An owner as somebody wrote it. */
struct owner_text {
    const char *text;
    size_t length;
};

static bool owned_by(const struct sandbox *sandbox, struct owner_text owner)
{
    return strlen(sandbox->owner->name) == owner.length &&
           !strncmp(sandbox->owner->name, owner.text, owner.length);
}

static struct sandbox *find_name(const struct registry *registry, const char *name,
                                 struct owner_text owner)
{
    struct sandbox *s = registry->by_name[name_bucket(registry, name)];
    while (s && (strcmp(s->record.name, name) != 0 || !owned_by(s, owner)))
        s = s->links.same_name_bucket;
    return s;
}

/* How many have this name, whose ever; *ret is one of them. */
static size_t count_named(const struct registry *registry, const char *name, struct sandbox **ret)
{
    size_t count = 0;
    struct sandbox *s = registry->by_name[name_bucket(registry, name)];
    for (; s; s = s->links.same_name_bucket) {
        if (!strcmp(s->record.name, name)) {
            *ret = s;
            count++;
        }
    }
    return count;
}

static struct owner_text name_of(const struct caller *caller)
{
    return (struct owner_text){caller->name, strlen(caller->name)};
}

bool registry_name_taken(const struct registry *registry, const struct caller *owner,
                         const char *name)
{
    return find_name(registry, name, name_of(owner)) != NULL;
}

static struct sandbox *find_by_name(const struct registry *registry, const struct caller *caller,
                                    const char *reference)
{
    const char *colon = strchr(reference, ':');
    if (colon)
        return find_name(registry, colon + 1,
                         (struct owner_text){reference, (size_t)(colon - reference)});
    struct sandbox *found = find_name(registry, reference, name_of(caller)), *other;
    if (!found && caller->admin && count_named(registry, reference, &other) == 1)
        found = other;
    return found;
}

struct sandbox *registry_find(const struct registry *registry, const struct caller *caller,
                              const char *reference)
{
    struct id id;
    struct sandbox *found = id_parse(reference, &id) == 0
                                ? registry_find_id(registry, id)
                                : find_by_name(registry, caller, reference);
    return found && caller_may_see(caller, found->owner) ? found : NULL;
}

bool registry_ambiguous(const struct registry *registry, const struct caller *caller,
                        const char *reference)
{
    struct sandbox *other;
    return caller->admin && !find_by_name(registry, caller, reference) &&
           count_named(registry, reference, &other) > 1;
}

void registry_add_name(struct registry *registry, struct sandbox *sandbox)
{
    husk_assert(sandbox->owner &&
                !registry_name_taken(registry, sandbox->owner, sandbox->record.name));
    struct sandbox **bucket = &registry->by_name[name_bucket(registry, sandbox->record.name)];
    sandbox->links.same_name_bucket = *bucket;
    *bucket = sandbox;
    sandbox->links.named = true;
}

void registry_add(struct registry *registry, struct sandbox *sandbox)
{
    husk_assert(!registry_find_id(registry, sandbox->id));
    sandbox->links = (struct registry_links){.previous = registry->last};
    if (registry->last)
        registry->last->links.next = sandbox;
    else
        registry->first = sandbox;
    registry->last = sandbox;
    struct sandbox **bucket = &registry->by_id[id_bucket(sandbox->id)];
    sandbox->links.same_id_bucket = *bucket;
    *bucket = sandbox;
    registry->count++;
    if (*sandbox->record.name)
        registry_add_name(registry, sandbox);
}

static void bury(struct registry *registry, const struct sandbox *sandbox, enum ending ending)
{
    struct tombstone *place = &registry->tombstones[registry->buried++ % MAX_TOMBSTONES];
    place->id = sandbox->id;
    place->owner = sandbox->owner;
    place->ending = ending;
    place->link_key = sandbox->record.link_key;
    memcpy(place->name, sandbox->record.name, sizeof place->name);
}

static void take_out_name(struct registry *registry, struct sandbox *sandbox)
{
    struct sandbox **at = &registry->by_name[name_bucket(registry, sandbox->record.name)];
    while (*at != sandbox)
        at = &(*at)->links.same_name_bucket;
    *at = sandbox->links.same_name_bucket;
}

void registry_remove(struct registry *registry, struct sandbox *sandbox, enum ending ending)
{
    struct sandbox **at = &registry->by_id[id_bucket(sandbox->id)];
    while (*at != sandbox)
        at = &(*at)->links.same_id_bucket;
    *at = sandbox->links.same_id_bucket;
    if (sandbox->links.named)
        take_out_name(registry, sandbox);
    if (sandbox->links.previous)
        sandbox->links.previous->links.next = sandbox->links.next;
    else
        registry->first = sandbox->links.next;
    if (sandbox->links.next)
        sandbox->links.next->links.previous = sandbox->links.previous;
    else
        registry->last = sandbox->links.previous;
    registry->count--;
    if (ending != ENDED_UNMADE)
        bury(registry, sandbox, ending);
}

/* What was meant: an id, or a name and perhaps whose. */
struct epitaph {
    bool by_id;
    struct id id;
    const char *name;
    struct owner_text owner; /* text NULL: whose ever */
};

static bool is_of(const struct tombstone *stone, const struct epitaph *wanted)
{
    if (wanted->by_id)
        return id_equal(stone->id, wanted->id);
    const char *owner = stone->owner ? stone->owner->name : "";
    return *wanted->name && !strcmp(stone->name, wanted->name) &&
           (!wanted->owner.text || (strlen(owner) == wanted->owner.length &&
                                    !strncmp(owner, wanted->owner.text, wanted->owner.length)));
}

/* Newest first: a name may have been used more than once. `caller` NULL: seen by nobody in particular. */
static const struct tombstone *find_stone(const struct registry *registry,
                                          const struct caller *caller, const struct epitaph *wanted)
{
    size_t kept = registry->buried < MAX_TOMBSTONES ? registry->buried : MAX_TOMBSTONES;
    for (size_t age = 1; age <= kept; age++) {
        const struct tombstone *stone =
            &registry->tombstones[(registry->buried - age) % MAX_TOMBSTONES];
        if (is_of(stone, wanted) && (!caller || caller_may_see(caller, stone->owner)))
            return stone;
    }
    return NULL;
}

const struct tombstone *registry_find_tombstone(const struct registry *registry,
                                                const struct caller *caller, const char *reference)
{
    struct epitaph wanted = {.name = reference};
    const char *colon = strchr(reference, ':');
    wanted.by_id = id_parse(reference, &wanted.id) == 0;
    if (colon) {
        wanted.owner = (struct owner_text){reference, (size_t)(colon - reference)};
        wanted.name = colon + 1;
    }
    return find_stone(registry, caller, &wanted);
}

const struct tombstone *registry_find_tombstone_id(const struct registry *registry, struct id id)
{
    return find_stone(registry, NULL, &(struct epitaph){.by_id = true, .id = id});
}

size_t registry_count(const struct registry *registry)
{
    return registry->count;
}

struct sandbox *registry_first(const struct registry *registry)
{
    return registry->first;
}

struct sandbox *registry_next(const struct sandbox *sandbox)
{
    return sandbox->links.next;
}
