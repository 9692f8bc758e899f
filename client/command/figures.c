#include "command/figures.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "command/folder.h"

enum {
    MAX_FIGURES = 100000
};

/* The best first. */
static const struct {
    const char *type, *extension;
} kinds[] = {
    {"image/png", "png"},   {"image/jpeg", "jpg"}, {"image/svg+xml", "svg"},
    {"image/webp", "webp"}, {"image/gif", "gif"},  {"application/pdf", "pdf"},
};

const struct husk_output *figures_choose(const struct husk_output *outputs, size_t count)
{
    for (size_t kind = 0; kind < ARRAY_LENGTH(kinds); kind++) {
        for (size_t i = 0; i < count; i++) {
            if (!strcmp(outputs[i].type, kinds[kind].type))
                return &outputs[i];
        }
    }
    return NULL;
}

static const char *extension_of(const char *type)
{
    for (size_t kind = 0; kind < ARRAY_LENGTH(kinds); kind++) {
        if (!strcmp(type, kinds[kind].type))
            return kinds[kind].extension;
    }
    return "bin";
}

static const char *remembered_name(const struct figures *figures, uint64_t output)
{
    for (size_t i = 0; i < figures->count && i < MAX_REMEMBERED_FIGURES; i++) {
        if (figures->remembered[i].output == output)
            return figures->remembered[i].name;
    }
    return NULL;
}

static void remember(struct figures *figures, uint64_t output, const char *name)
{
    size_t place = figures->count++ % MAX_REMEMBERED_FIGURES;
    figures->remembered[place].output = output;
    (void)snprintf(figures->remembered[place].name, sizeof figures->remembered[place].name, "%s",
                   name);
}

/* A new file with the next number that is free. */
static int open_new(struct figures *figures, int folder, const char *type, char name[32])
{
    while (figures->last < MAX_FIGURES) {
        (void)snprintf(name, 32, "figure-%u.%s", ++figures->last, extension_of(type));
        int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd < 0 ? -errno : fd;
    }
    return -EEXIST;
}

int figures_save(struct figures *figures, const struct husk_output *output, bool update,
                 char name[32], struct failure *why)
{
    _cleanup_close_ int folder = folder_open(figures->folder, true);
    if (folder < 0)
        return fail(why, folder, "The folder '%.100s' cannot be used", figures->folder);
    const char *earlier = update ? remembered_name(figures, output->output) : NULL;
    if (earlier)
        (void)snprintf(name, 32, "%s", earlier);
    _cleanup_close_ int fd = earlier
                                 ? openat(folder, name, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC)
                                 : open_new(figures, folder, output->type, name);
    if (fd < 0)
        return fail(why, earlier ? errno : -fd, "A figure cannot be saved as '%s'", name);
    int r = write_all(fd, output->data.data, output->data.length);
    if (r < 0)
        return fail(why, r, "The figure '%s' cannot be written", name);
    if (!earlier)
        remember(figures, output->output, name);
    return 0;
}
