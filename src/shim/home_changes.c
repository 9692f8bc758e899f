#include "shim/home_changes.h"

#include <stdlib.h>

#include "base/memory.h"
#include "husk/limits.h"
#include "shim/tree_watch.h"

struct home_changes {
    int home_fd;
    const struct file_links *links;
    struct tree_watch *watch;
    uint64_t looks; /* at what the watches say */
};

struct home_changes *home_changes_new(int home_fd, const struct file_links *links)
{
    struct home_changes *changes = must_alloc(sizeof *changes);
    *changes = (struct home_changes){.home_fd = home_fd, .links = links};
    changes->watch = tree_watch_new((struct tree_watch_bounds){
        .least_entries = UNWATCHED_FILES, .most_folders = MAX_WATCHED_FOLDERS});
    return changes;
}

struct home_changes *home_changes_free(struct home_changes *changes)
{
    if (!changes)
        return NULL;
    tree_watch_free(changes->watch);
    free(changes);
    return NULL;
}

struct home_mark home_changes_mark(const struct home_changes *changes)
{
    return (struct home_mark){.moment = moment_now(), .looks = changes->looks};
}

json_t *home_changes_since(struct home_changes *changes, const struct home_mark *mark,
                           bool *ret_truncated)
{
    struct changed_files found = {0};
    bool alone = mark->looks == changes->looks;
    json_t *files = json_array();
    *ret_truncated = changed_files_find(changes->home_fd, alone ? changes->watch : NULL,
                                        &mark->moment, &found) < 0 ||
                     found.incomplete;
    changes->looks += alone;
    for (size_t i = 0; i < found.count; i++)
        (void)json_array_append_new(files, file_links_entry(changes->links, &found.files[i]));
    changed_files_free(&found);
    return files;
}
