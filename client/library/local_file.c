#include "library/local_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "library/client.h"
#include "library/complaint.h"

enum {
    ATTEMPTS = 16 /* to find a name that is free */
};

struct local_file {
    struct husk *husk;
    char *place;     /* where it goes */
    char *temporary; /* NULL: it is written in place */
    int fd;
    bool borrowed; /* standard output */
};

struct local_file *local_file_free(struct local_file *file)
{
    if (!file)
        return NULL;
    if (file->fd >= 0 && !file->borrowed)
        close(file->fd);
    if (file->temporary)
        (void)unlink(file->temporary);
    free(file->temporary);
    free(file->place);
    free(file);
    return NULL;
}

static int complain_file(struct husk_error *error, const char *place, int code)
{
    if (code == ENOMEM)
        return complain_memory(error);
    return complain(error, HUSK_ERROR_FILE, "%s cannot be written: %s.", place, strerror(code));
}

/* Beside its place, so that moving it there is one step. 0 or -errno. */
static int open_temporary(struct local_file *file)
{
    const char *slash = strrchr(file->place, '/');
    int folder = slash ? (int)(slash - file->place) + 1 : 0;
    for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
        unsigned long number;
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
            return -errno;
        if (asprintf(&file->temporary, "%.*s.husk-%016lx", folder, file->place, number) < 0) {
            file->temporary = NULL;
            return -ENOMEM;
        }
        file->fd =
            open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (file->fd >= 0)
            return 0;
        int code = errno;
        free(TAKE_POINTER(file->temporary));
        if (code != EEXIST)
            return -code;
    }
    return -EEXIST;
}

/* 0 or -errno. */
static int open_place(struct local_file *file, const char *name)
{
    struct stat status;
    bool exists = stat(name, &status) == 0;
    if (exists && S_ISDIR(status.st_mode))
        return -EISDIR;
    /* Through links, as if it were written in place. */
    file->place = exists ? realpath(name, NULL) : strdup(name);
    if (!file->place)
        return -errno;
    if (exists && !S_ISREG(status.st_mode)) {
        file->fd = open(name, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        return file->fd < 0 ? -errno : 0;
    }
    int r = open_temporary(file);
    /* Who may read what was there may read what replaces it, and nobody else. */
    if (r == 0 && exists && fchmod(file->fd, status.st_mode & 0777) < 0)
        r = -errno;
    return r;
}

int local_file_new(struct husk *husk, const char *name, struct local_file **ret,
                   struct husk_error *error)
{
    if (!name || !*name)
        return complain(error, HUSK_ERROR_ARGUMENT, "Say which file to write: it is empty.");
    struct local_file *file = calloc(1, sizeof *file);
    if (!file)
        return complain_memory(error);
    bool standard = !strcmp(name, "-");
    *file = (struct local_file){
        .husk = husk, .fd = standard ? STDOUT_FILENO : -1, .borrowed = standard};
    int r = standard ? 0 : open_place(file, name);
    if (r < 0) {
        (void)local_file_free(file);
        return complain_file(error, name, -r);
    }
    *ret = file;
    return 0;
}

/* A pipe that says it can be written takes PIPE_BUF bytes without waiting. */
static ssize_t write_waiting(struct local_file *file, const char *data, size_t length)
{
    int r = client_wait_for(file->husk, file->fd, POLLOUT);
    return r < 0 ? r : write_some(file->fd, data, length < PIPE_BUF ? length : PIPE_BUF);
}

int local_file_write(struct local_file *file, const char *data, size_t length,
                     struct husk_error *error)
{
    while (length > 0) {
        ssize_t written = file->temporary ? write_some(file->fd, data, length)
                                          : write_waiting(file, data, length);
        if (written == -EAGAIN)
            continue;
        if (written == -ECANCELED)
            return complain(error, HUSK_ERROR_CANCELLED, "The call was cancelled.");
        if (written < 0)
            return complain_file(error, file->borrowed ? "Standard output" : file->place,
                                 (int)-written);
        data += written;
        length -= (size_t)written;
    }
    return 0;
}

int local_file_finish(struct local_file *file, struct husk_error *error)
{
    if (file->borrowed)
        return 0;
    /* Some file systems say only now that the disk is full. */
    if (close(TAKE_DESCRIPTOR(file->fd)) < 0 && errno != EINTR)
        return complain_file(error, file->place, errno);
    if (!file->temporary)
        return 0;
    if (rename(file->temporary, file->place) < 0)
        return complain_file(error, file->place, errno);
    free(TAKE_POINTER(file->temporary));
    return 0;
}
