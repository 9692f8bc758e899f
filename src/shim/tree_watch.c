#include "shim/tree_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/log.h"
#include "base/memory.h"

enum {
    BUCKETS = 4096,
    EVENT_BYTES = 16 * 1024
};

/* Without IN_EXCL_UNLINK a process that writes into a removed file would make us read the folder again and again. */
static const uint32_t watch_mask = IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE |
                                   IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR | IN_EXCL_UNLINK |
                                   IN_ONESHOT | IN_MASK_CREATE;

struct watched_folder {
    struct watched_folder *parent; /* NULL: the working directory */
    struct watched_folder *children;
    struct watched_folder *sibling;
    struct watched_folder *same_inode_bucket;
    struct watched_folder *same_watch_bucket;
    TAILQ_ENTRY(watched_folder) activity;
    uint64_t inode;
    uint64_t links;    /* of the files with several names in it; 0: there are none */
    uint64_t found_in; /* walk */
    size_t entries;    /* when it was read */
    int watch;         /* -1: none, it must be read */
    bool due;          /* in this walk: to be read */
    bool on_the_way;   /* the same, or one below it */
    char name[];
};

TAILQ_HEAD(activity, watched_folder);

struct tree_watch {
    struct tree_watch_bounds bounds;
    bool wanted; /* the tree is large */
    bool told;   /* that there is no inotify */
    int fd;      /* of inotify; -1: nothing is watched, and nothing below is there */
    struct watched_folder *home;
    struct watched_folder **by_inode;
    struct watched_folder **by_watch;
    struct activity activity; /* all folders, those where something happened last first */
    size_t folders;
    size_t entries;     /* in all of them */
    uint64_t walk;      /* number */
    bool all_due;       /* in this walk every folder is read */
    bool links_changed; /* files with several names are not as they were */
    bool loose_links;   /* there are some where nothing is remembered, now or in the last walk */
};

/* --- the folders ------------------------------------------------------------------------------ */

static uint64_t mixed(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

static struct watched_folder **inode_bucket(struct tree_watch *watch, uint64_t inode)
{
    return &watch->by_inode[mixed(inode) % BUCKETS];
}

static struct watched_folder **watch_bucket(struct tree_watch *watch, int number)
{
    return &watch->by_watch[(unsigned)number % BUCKETS];
}

/* The kernel has removed its watch, or will not report it: it must be read. */
static void forget_watch(struct tree_watch *watch, struct watched_folder *folder)
{
    if (folder->watch < 0)
        return;
    struct watched_folder **link = watch_bucket(watch, folder->watch);
    while (*link != folder)
        link = &(*link)->same_watch_bucket;
    *link = folder->same_watch_bucket;
    folder->watch = -1;
}

static void remove_watch(struct tree_watch *watch, struct watched_folder *folder)
{
    if (folder->watch >= 0)
        (void)inotify_rm_watch(watch->fd, folder->watch);
    forget_watch(watch, folder);
}

/* Due, as all that is new. NULL: no memory. */
static struct watched_folder *add_folder(struct tree_watch *watch, struct watched_folder *parent,
                                         const char *name, uint64_t inode)
{
    size_t size = strlen(name) + 1;
    struct watched_folder *folder = calloc(1, sizeof *folder + size);
    if (!folder)
        return NULL;
    struct watched_folder **bucket = inode_bucket(watch, inode);
    folder->parent = parent;
    folder->inode = inode;
    folder->same_inode_bucket = *bucket;
    folder->watch = -1;
    folder->due = true;
    folder->on_the_way = true;
    memcpy(folder->name, name, size);
    *bucket = folder;
    if (parent) {
        folder->sibling = parent->children;
        parent->children = folder;
    }
    TAILQ_INSERT_TAIL(&watch->activity, folder, activity);
    watch->folders++;
    return folder;
}

/* With all below it. It is no longer among the children of its parent. As deep as a walk goes. */
static void remove_folder(struct tree_watch *watch, struct watched_folder *folder)
{
    for (struct watched_folder *child; (child = folder->children);) {
        folder->children = child->sibling;
        remove_folder(watch, child);
    }
    remove_watch(watch, folder);
    watch->links_changed |= folder->links != 0; /* one of their names less */
    struct watched_folder **link = inode_bucket(watch, folder->inode);
    while (*link != folder)
        link = &(*link)->same_inode_bucket;
    *link = folder->same_inode_bucket;
    TAILQ_REMOVE(&watch->activity, folder, activity);
    watch->folders--;
    watch->entries -= folder->entries;
    free(folder);
}

static struct watched_folder *find_folder(struct tree_watch *watch,
                                          const struct watched_folder *parent, const char *name,
                                          uint64_t inode)
{
    struct watched_folder *folder = *inode_bucket(watch, inode);
    while (folder &&
           (folder->inode != inode || folder->parent != parent || strcmp(folder->name, name) != 0))
        folder = folder->same_inode_bucket;
    return folder;
}

static void move_to_front(struct tree_watch *watch, struct watched_folder *folder)
{
    TAILQ_REMOVE(&watch->activity, folder, activity);
    TAILQ_INSERT_HEAD(&watch->activity, folder, activity);
}

/* --- events ----------------------------------------------------------------------------------- */

static void doubt_all(struct tree_watch *watch)
{
    struct watched_folder *folder;
    TAILQ_FOREACH(folder, &watch->activity, activity)
    remove_watch(watch, folder);
}

static void take_event(struct tree_watch *watch, const struct inotify_event *event)
{
    if (event->mask & IN_Q_OVERFLOW)
        return doubt_all(watch);
    struct watched_folder *folder = *watch_bucket(watch, event->wd);
    while (folder && folder->watch != event->wd)
        folder = folder->same_watch_bucket;
    if (!folder)
        return; /* the second event of a watch says that it is gone */
    forget_watch(watch, folder);
    move_to_front(watch, folder);
}

/* Ends, since no watch is set meanwhile and each fires once. */
static void take_events(struct tree_watch *watch)
{
    char events[EVENT_BYTES] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t length;
    while ((length = read(watch->fd, events, sizeof events)) > 0) {
        for (ssize_t at = 0; at < length;) {
            const struct inotify_event *event =
                (const struct inotify_event *)(const void *)(events + at);
            take_event(watch, event);
            at += (ssize_t)(sizeof *event + event->len);
        }
    }
    if (length == 0 || errno != EAGAIN)
        doubt_all(watch);
}

/* --- life ------------------------------------------------------------------------------------- */

struct tree_watch *tree_watch_new(struct tree_watch_bounds bounds)
{
    struct tree_watch *watch = must_alloc(sizeof *watch);
    watch->bounds = bounds;
    watch->fd = -1;
    TAILQ_INIT(&watch->activity);
    return watch;
}

static void deactivate(struct tree_watch *watch)
{
    /* All watches at once, and then nothing has to be removed one by one. */
    close_descriptor(&watch->fd);
    watch->fd = -1;
    for (struct watched_folder *folder; (folder = TAILQ_FIRST(&watch->activity));) {
        TAILQ_REMOVE(&watch->activity, folder, activity);
        free(folder);
    }
    free(TAKE_POINTER(watch->by_inode));
    free(TAKE_POINTER(watch->by_watch));
    watch->home = NULL;
    watch->folders = 0;
    watch->entries = 0;
    watch->wanted = false;
}

struct tree_watch *tree_watch_free(struct tree_watch *watch)
{
    if (!watch)
        return NULL;
    deactivate(watch);
    free(watch);
    return NULL;
}

static bool activate(struct tree_watch *watch, int home_fd)
{
    struct stat status;
    watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch->fd < 0 && !watch->told) {
        log_event(LOG_DEBUG, "a large tree is walked after every execution", "reason",
                  strerror(errno), NULL);
        watch->told = true;
    }
    if (watch->fd < 0 || fstat(home_fd, &status) < 0)
        return false;
    watch->by_inode = calloc(BUCKETS, sizeof(struct watched_folder *));
    watch->by_watch = calloc(BUCKETS, sizeof(struct watched_folder *));
    if (watch->by_inode && watch->by_watch)
        watch->home = add_folder(watch, NULL, "", status.st_ino);
    return watch->home != NULL;
}

/* --- a walk ----------------------------------------------------------------------------------- */

/* Folders without a watch; and of the others those where something happened last, until there is enough. */
static void plan(struct tree_watch *watch)
{
    struct watched_folder *folder;
    size_t room = watch->bounds.least_entries;
    watch->all_due = true;
    TAILQ_FOREACH(folder, &watch->activity, activity)
    {
        bool recent = folder->entries < room;
        if (recent)
            room -= folder->entries + 1;
        folder->due = folder->watch < 0 || recent;
        folder->on_the_way = false;
        watch->all_due &= folder->due;
    }
    TAILQ_FOREACH(folder, &watch->activity, activity)
    {
        struct watched_folder *up = folder->due ? folder : NULL;
        for (; up && !up->on_the_way; up = up->parent)
            up->on_the_way = true;
    }
}

struct watched_folder *tree_watch_begin(struct tree_watch *watch, int home_fd)
{
    watch->walk++;
    watch->links_changed = watch->loose_links;
    watch->loose_links = false;
    if (watch->fd < 0) {
        if (!watch->wanted)
            return NULL;
        if (!activate(watch, home_fd)) {
            deactivate(watch);
            return NULL;
        }
    }
    take_events(watch);
    plan(watch);
    return watch->home;
}

/* What became small gives its inotify back, of which there are few; not at the first file less. */
void tree_watch_end(struct tree_watch *watch, size_t looked_at, bool over)
{
    bool large = over || looked_at > watch->bounds.least_entries;
    if (watch->fd < 0) {
        watch->wanted = large;
        return;
    }
    (void)!chdir("/");
    if (!large && watch->entries < watch->bounds.least_entries / 2)
        deactivate(watch);
}

bool watched_folder_is(const struct watched_folder *folder, int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && status.st_ino == folder->inode;
}

bool watched_folder_due(const struct watched_folder *folder)
{
    return folder->due;
}

struct watched_folder *watched_folder_next(const struct watched_folder *folder,
                                           const struct watched_folder *previous)
{
    struct watched_folder *child = previous ? previous->sibling : folder->children;
    while (child && !child->on_the_way)
        child = child->sibling;
    return child;
}

const char *watched_folder_name(const struct watched_folder *folder)
{
    return folder->name;
}

void tree_watch_set(struct tree_watch *watch, struct watched_folder *folder, int fd)
{
    if (folder->watch >= 0 || fchdir(fd) < 0)
        return;
    int number = inotify_add_watch(watch->fd, ".", watch_mask);
    if (number < 0)
        return;
    struct watched_folder **bucket = watch_bucket(watch, number);
    folder->watch = number;
    folder->same_watch_bucket = *bucket;
    *bucket = folder;
}

int tree_watch_found(struct tree_watch *watch, struct watched_folder *parent, const char *name,
                     uint64_t inode, struct watched_folder **ret)
{
    struct watched_folder *folder = find_folder(watch, parent, name, inode);
    if (!folder && watch->folders < watch->bounds.most_folders)
        folder = add_folder(watch, parent, name, inode);
    if (!folder)
        return -ENOSPC;
    folder->found_in = watch->walk;
    *ret = folder;
    return folder->on_the_way;
}

uint64_t linked_file(uint64_t inode, uint32_t names, int64_t change)
{
    return names < 2 ? 0 : mixed(mixed(inode + names) + (uint64_t)change);
}

/* All of the folder was seen: children that were not are no longer there. */
static void remove_missing(struct tree_watch *watch, struct watched_folder *folder)
{
    struct watched_folder **link = &folder->children;
    for (struct watched_folder *child; (child = *link);) {
        if (child->found_in == watch->walk) {
            link = &child->sibling;
            continue;
        }
        *link = child->sibling;
        remove_folder(watch, child);
    }
}

void tree_watch_settle(struct tree_watch *watch, struct watched_folder *folder,
                       const struct folder_reading *reading)
{
    if (!folder) {
        watch->loose_links |= reading->links != 0;
        return;
    }
    if (reading->complete)
        remove_missing(watch, folder);
    else
        remove_watch(watch, folder);
    if (reading->changed)
        move_to_front(watch, folder);
    watch->entries += reading->entries - folder->entries;
    folder->entries = reading->entries;
    watch->links_changed |= folder->links != reading->links;
    folder->links = reading->links;
}

bool tree_watch_wants_all(struct tree_watch *watch)
{
    if (watch->fd < 0 || watch->all_due || !(watch->links_changed || watch->loose_links))
        return false;
    doubt_all(watch);
    plan(watch);
    watch->walk++;
    return true;
}
