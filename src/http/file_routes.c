/* Files of a sandbox. huskd never resolves a path and never opens one: the keeper does, and passes the descriptor. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "base/media_type.h"
#include "base/memory.h"
#include "base/percent.h"
#include "http/peer.h"
#include "http/request.h"
#include "http/response.h"
#include "http/routes.h"
#include "huskd/keeper_client.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"

/* --- sending ------------------------------------------------------------------------------------ */

/* A file on its way to a client. Owned by libmicrohttpd's response. */
struct download {
    int fd;
    uint64_t size; /* when it began */
    struct peer *peer;
};

/* A slow client may take as long as a slow line needs for a large file. */
static void allow_time(const struct download *download)
{
    uint64_t seconds = SEND_SECONDS + download->size / LEAST_DOWNLOAD_RATE;
    peer_allow(download->peer, (unsigned)(seconds < MAX_SEND_SECONDS ? seconds : MAX_SEND_SECONDS));
}

/* The file may have become shorter: then the connection is closed, which tells the client that something is missing. What was
 * appended is not sent. */
static ssize_t read_more(void *user, uint64_t position, char *out, size_t room)
{
    const struct download *download = user;
    if (position == 0)
        allow_time(download);
    uint64_t left = download->size - position;
    if (left == 0)
        return MHD_CONTENT_READER_END_OF_STREAM;
    ssize_t got = read_at(download->fd, out, left < room ? left : room, position);
    return got > 0 ? got : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void end(void *user)
{
    struct download *download = user;
    close_fd(download->fd);
    free(download);
}

/* RFC 6266 and 8187: a name in any language, with nothing in it that could end the header. */
static void add_name(struct MHD_Response *response, const char *path)
{
    _cleanup_buffer_ struct buffer text = {0};
    const char *slash = strrchr(path, '/');
    if (buffer_append_text(&text, "attachment; filename*=UTF-8''") < 0 ||
        percent_encode(slash ? slash + 1 : path, "", &text) < 0 || !buffer_text(&text))
        return;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_DISPOSITION, text.data);
}

/* What a sandbox made is shown by no browser as if it came from here: no sniffing, no scripts, no display. Takes `fd`. */
static struct MHD_Response *response_for(const struct request *request, int fd)
{
    _cleanup_close_ int own = fd;
    struct stat status;
    if (fstat(own, &status) < 0)
        return NULL;
    struct download *download = must_alloc(sizeof *download);
    *download =
        (struct download){.fd = own, .size = (uint64_t)status.st_size, .peer = request->peer};
    struct MHD_Response *response = MHD_create_response_from_callback(
        download->size, DOWNLOAD_BLOCK_BYTES, read_more, download, end);
    if (!response) {
        free(download);
        return NULL;
    }
    (void)TAKE_DESCRIPTOR(own);
    const char *path = request_file_path(request);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, media_type(path));
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    (void)MHD_add_response_header(response, "Content-Security-Policy", "sandbox");
    add_name(response, path);
    return response;
}

/* --- asking for it ------------------------------------------------------------------------------ */

static void answer_not_found(struct request *request)
{
    struct problem problem;
    problem_set(&problem, PROBLEM_FILE_NOT_FOUND,
                "There is no file '%.160s' in the sandbox. Paths are relative to /home/user, and "
                "only regular files can be downloaded.",
                request_file_path(request));
    answer_problem(request, &problem);
}

static void answer_failure(struct request *request, int error)
{
    static const int absent[] = {ENOENT, ENOTDIR, EISDIR, ENXIO,  ELOOP,
                                 EXDEV,  EACCES,  EPERM,  EINVAL, ENAMETOOLONG};
    for (size_t i = 0; i < ARRAY_LENGTH(absent); i++) {
        if (error == absent[i]) {
            answer_not_found(request);
            return;
        }
    }
    struct problem problem;
    problem_set(&problem, PROBLEM_FILE_UNAVAILABLE,
                "The file cannot be opened now: %s. Try again in a moment.",
                error == EAGAIN ? "a process in the sandbox keeps it for itself" : strerror(error));
    answer_problem(request, &problem);
}

/* The sandbox may have ended while the keeper was asked: that is the better answer then. */
static void opened(int fd, void *user)
{
    struct request *request = user;
    struct problem problem;
    struct sandbox *sandbox = service_find(request->service, request->sandbox_text, &problem);
    if (!sandbox) {
        close_fd(fd);
        answer_problem(request, &problem);
        return;
    }
    if (fd < 0) {
        answer_failure(request, -fd);
        return;
    }
    sandbox_used(sandbox);
    struct MHD_Response *response = response_for(request, fd);
    if (response)
        request_answer(request, MHD_HTTP_OK, response);
    else
        answer_failure(request, ENOMEM);
}

static void cancel_open(struct request *request)
{
    keeper_client_forget(request->service->keeper, request->tag);
}

void route_download(struct request *request)
{
    if (!request_find_sandbox(request))
        return;
    const char *path = request_file_path(request);
    if (!*path) {
        answer_not_found(request);
        return;
    }
    request->tag =
        keeper_client_open(request->service->keeper, request->sandbox->id, path, opened, request);
    request_wait(request, cancel_open);
}
