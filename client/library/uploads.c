/* Files on their way in: from memory, from a file of this machine, from a function of the caller; as they are, or an archive in a form. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "library/client.h"
#include "library/complaint.h"
#include "library/exchange.h"
#include "library/path.h"
#include "library/patience.h"

/* PUT …/files/{file} */
static int put(struct husk *husk, const char *sandbox, const char *file,
               const struct exchange_upload *upload, struct husk_error *error)
{
    _cleanup_path_ struct path path;
    path_begin(&path, sandbox, "/files/", error);
    path_add_file(&path, file);
    if (path.result == 0 && (!file || !*file))
        return complain(error, HUSK_ERROR_ARGUMENT, "Say which path the file gets: it is empty.");
    struct exchange exchange = {
        .method = "PUT", .path = path.text.data, .upload = upload, .tells = true};
    return path.result < 0 ? path.result : exchange_order(husk, &exchange, error);
}

/* --- from memory -------------------------------------------------------------------------------- */

struct memory {
    const char *data;
    size_t left;
};

static ptrdiff_t read_memory(void *data, size_t room, void *user)
{
    struct memory *memory = user;
    size_t length = memory->left < room ? memory->left : room;
    memcpy(data, memory->data, length);
    memory->data += length;
    memory->left -= length;
    return (ptrdiff_t)length;
}

int husk_upload(struct husk *husk, const char *sandbox, const void *data, size_t length,
                const char *path, struct husk_error *error)
{
    if (!data && length > 0)
        return complain(error, HUSK_ERROR_ARGUMENT, "There is nothing to upload: it is NULL.");
    struct memory memory = {.data = data ? data : "", .left = length};
    struct exchange_upload upload = {.source = read_memory,
                                     .user = &memory,
                                     .length = length,
                                     .type = "application/octet-stream"};
    return put(husk, sandbox, path, &upload, error);
}

/* --- from a file -------------------------------------------------------------------------------- */

struct local {
    struct husk *husk;
    struct husk_error *error;
    const char *name;
    int fd;
};

/* A pipe may be silent for long: until then the call can be cancelled. */
static ptrdiff_t read_local(void *data, size_t room, void *user)
{
    const struct local *local = user;
    ssize_t got;
    do {
        int r = client_wait_for(local->husk, local->fd, POLLIN);
        got = r < 0 ? r : read_some(local->fd, data, room);
    } while (got == -EAGAIN);
    if (got == -ECANCELED)
        (void)complain(local->error, HUSK_ERROR_CANCELLED, "The call was cancelled.");
    else if (got < 0)
        (void)complain(local->error, HUSK_ERROR_FILE, "%s cannot be read: %s.", local->name,
                       strerror((int)-got));
    return got;
}

static int send_local(const struct local *local, const char *sandbox, const char *path)
{
    struct stat status;
    if (fstat(local->fd, &status) < 0)
        return complain(local->error, HUSK_ERROR_FILE, "%s cannot be read: %s.", local->name,
                        strerror(errno));
    if (S_ISDIR(status.st_mode))
        return complain(local->error, HUSK_ERROR_FILE,
                        "%s is a folder. Pack it, and let it be unpacked: husk_upload_from() with "
                        "extract.",
                        local->name);
    /* Files of /proc say that they are empty. */
    off_t position = S_ISREG(status.st_mode) ? lseek(local->fd, 0, SEEK_CUR) : 0;
    bool known = S_ISREG(status.st_mode) && position >= 0 && status.st_size > position;
    struct exchange_upload upload = {.source = read_local,
                                     .user = (void *)(uintptr_t)local,
                                     .length = known ? (uint64_t)(status.st_size - position) : 0,
                                     .unknown = !known,
                                     .type = "application/octet-stream"};
    return put(local->husk, sandbox, path, &upload, local->error);
}

int husk_upload_file(struct husk *husk, const char *sandbox, const char *local, const char *path,
                     struct husk_error *error)
{
    struct husk_error unread = {0};
    struct local source = {.husk = husk, .error = error ? error : &unread, .name = local};
    if (!local || !*local)
        return complain(error, HUSK_ERROR_ARGUMENT, "Say which file to upload: it is empty.");
    if (!strcmp(local, "-")) {
        source.name = "Standard input";
        source.fd = STDIN_FILENO;
        return send_local(&source, sandbox, path);
    }
    _cleanup_close_ int fd = open(local, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return complain(error, HUSK_ERROR_FILE, "%s cannot be read: %s.", local, strerror(errno));
    source.fd = fd;
    return send_local(&source, sandbox, path);
}

/* --- archives ----------------------------------------------------------------------------------- */

/* The body of a form with one file: `before`, what the source gives, `after`. */
struct form {
    husk_source source;
    void *user;
    struct memory before, after;
    bool over; /* the source */
};

static ptrdiff_t read_form(void *data, size_t room, void *user)
{
    struct form *form = user;
    if (form->before.left > 0)
        return read_memory(data, room, &form->before);
    if (!form->over) {
        ptrdiff_t got = form->source(data, room, form->user);
        if (got != 0)
            return got;
        form->over = true;
    }
    return read_memory(data, room, &form->after);
}

/* One that nobody can have put into the archive. */
static int make_boundary(char out[33])
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return -errno;
    for (size_t i = 0; i < sizeof bytes; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static int send_archive(struct husk *husk, const struct path *path,
                        const struct exchange_upload *archive, struct husk_error *error)
{
    char boundary[33], before[256], after[64], type[96];
    if (make_boundary(boundary) < 0)
        return complain(error, HUSK_ERROR_FILE, "There are no random numbers: %s.",
                        strerror(errno));
    (void)snprintf(type, sizeof type, "multipart/form-data; boundary=%s", boundary);
    (void)snprintf(before, sizeof before,
                   "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"archive\"\r\n"
                   "Content-Type: application/octet-stream\r\n\r\n",
                   boundary);
    (void)snprintf(after, sizeof after, "\r\n--%s--\r\n", boundary);
    struct form form = {.source = archive->source,
                        .user = archive->user,
                        .before = {before, strlen(before)},
                        .after = {after, strlen(after)}};
    struct exchange_upload upload = {.source = read_form,
                                     .user = &form,
                                     .length = strlen(before) + archive->length + strlen(after),
                                     .unknown = archive->unknown,
                                     .type = type};
    struct exchange exchange = {.method = "POST",
                                .path = path->text.data,
                                .upload = &upload,
                                .patience = CLIENT_UNPACK_SECONDS,
                                .tells = true};
    return exchange_order(husk, &exchange, error);
}

int husk_upload_from(struct husk *husk, const char *sandbox, husk_source source, void *user,
                     uint64_t total, const char *path, bool extract, struct husk_error *error)
{
    struct exchange_upload upload = {.source = source,
                                     .user = user,
                                     .length = total,
                                     .unknown = total == 0,
                                     .type = "application/octet-stream"};
    if (!source)
        return complain(error, HUSK_ERROR_ARGUMENT, "There is no source: it is NULL.");
    if (total > INT64_MAX / 2)
        return complain(error, HUSK_ERROR_ARGUMENT, "total is far too large a number.");
    if (!extract)
        return put(husk, sandbox, path, &upload, error);
    _cleanup_path_ struct path route;
    path_begin(&route, sandbox, "/upload?extract=1&file_path=", error);
    path_add_file(&route, path);
    return route.result < 0 ? route.result : send_archive(husk, &route, &upload, error);
}
