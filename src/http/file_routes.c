/* Files of a sandbox. huskd never resolves a path and never opens one: the keeper does, and passes the descriptor. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "base/media_type.h"
#include "base/memory.h"
#include "base/percent.h"
#include "http/byte_range.h"
#include "http/download.h"
#include "http/peer.h"
#include "http/request.h"
#include "http/response.h"
#include "http/routes.h"
#include "huskd/keeper_client.h"
#include "huskd/problem.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"

/* --- sending ------------------------------------------------------------------------------------ */

/* A file on its way to a client. Owned by libmicrohttpd's response. */
struct download {
    int fd;
    uint64_t start; /* where the part that is sent begins */
    uint64_t size;  /* of that part, when it began */
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
    ssize_t got = read_at(download->fd, out, left < room ? left : room, download->start + position);
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

/* What a sandbox made is shown by no browser as if it came from here: no sniffing, no scripts, no display. */
void download_describe(struct MHD_Response *response, const char *path)
{
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, media_type(path));
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    (void)MHD_add_response_header(response, "Content-Security-Policy", "sandbox");
    add_name(response, path);
}

static void add_validators(struct MHD_Response *response, const struct validators *validators)
{
    char date[HTTP_DATE_SIZE];
    http_date(validators->modified, date);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, validators->etag);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "private, no-cache");
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ACCEPT_RANGES, "bytes");
    if (*date)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_LAST_MODIFIED, date);
}

/* Takes `fd`. */
static struct MHD_Response *response_for(const struct request *request, int fd, uint64_t start,
                                         uint64_t size)
{
    struct download *download = must_alloc(sizeof *download);
    *download = (struct download){.fd = fd, .start = start, .size = size, .peer = request->peer};
    struct MHD_Response *response = MHD_create_response_from_callback(
        download->size, DOWNLOAD_BLOCK_BYTES, read_more, download, end);
    if (!response) {
        close_fd(fd);
        free(download);
        return NULL;
    }
    download_describe(response, request_file_path(request));
    return response;
}

static void answer_not_found(struct request *request)
{
    struct problem problem;
    problem_set(&problem, PROBLEM_FILE_NOT_FOUND,
                "There is no file '%.160s' in the sandbox. Paths are relative to /home/user, and "
                "only regular files and folders can be downloaded.",
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

static enum range_result judge(const struct request *request, const struct validators *validators,
                               uint64_t size, uint64_t *first, uint64_t *last)
{
    bool head = !strcmp(request->method, "HEAD");
    const struct range_request headers = {
        .range = head ? NULL : request_header(request, MHD_HTTP_HEADER_RANGE),
        .if_range = request_header(request, MHD_HTTP_HEADER_IF_RANGE),
        .if_none_match = request_header(request, MHD_HTTP_HEADER_IF_NONE_MATCH),
        .if_modified_since = request_header(request, MHD_HTTP_HEADER_IF_MODIFIED_SINCE),
    };
    return range_judge(&headers, validators, size, first, last);
}

static void answer_outside(struct request *request, uint64_t size)
{
    struct problem problem;
    problem_set(&problem, PROBLEM_RANGE_NOT_SATISFIABLE,
                "The file has %" PRIu64 " bytes; the range begins behind them.", size);
    request->file_size = size;
    answer_problem(request, &problem);
}

/* Takes `fd`, a regular file. */
static void answer_file(struct request *request, int fd)
{
    _cleanup_close_ int own = fd;
    struct stat status;
    uint64_t first = 0, last = 0;
    char text[96];
    if (fstat(own, &status) < 0)
        return answer_failure(request, errno);
    struct validators validators = validators_of(&status);
    uint64_t size = (uint64_t)status.st_size;
    enum range_result range = judge(request, &validators, size, &first, &last);
    if (range == RANGE_OUTSIDE)
        return answer_outside(request, size);
    struct MHD_Response *response;
    if (range == RANGE_UNCHANGED)
        response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    else if (range == RANGE_PART)
        response = response_for(request, TAKE_DESCRIPTOR(own), first, last - first + 1);
    else
        response = response_for(request, TAKE_DESCRIPTOR(own), 0, size);
    if (!response)
        return answer_failure(request, ENOMEM);
    add_validators(response, &validators);
    if (range == RANGE_PART) {
        (void)snprintf(text, sizeof text, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, first, last,
                       size);
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_RANGE, text);
    }
    request_answer(request,
                   range == RANGE_PART        ? MHD_HTTP_PARTIAL_CONTENT
                   : range == RANGE_UNCHANGED ? MHD_HTTP_NOT_MODIFIED
                                              : MHD_HTTP_OK,
                   response);
}

/* --- asking for it ------------------------------------------------------------------------------ */

/* The working directory itself is a folder like any other. */
static const char *wanted_path(const struct request *request)
{
    const char *path = request_file_path(request);
    return !*path || !strcmp(path, "/home/user") ? "." : path;
}

/* The sandbox may have ended while the keeper was asked: that is the better answer then. */
static void opened(int fd, void *user)
{
    struct request *request = user;
    struct problem problem;
    struct sandbox *sandbox =
        service_find(request->service, request->caller, request->sandbox_text, &problem);
    if (!sandbox) {
        close_fd(fd);
        answer_problem(request, &problem);
        return;
    }
    sandbox_used(sandbox);
    if (fd >= 0)
        answer_file(request, fd);
    else if (fd == -EISDIR)
        folder_download(request, sandbox->id, wanted_path(request));
    else
        answer_failure(request, -fd);
}

static void cancel_open(struct request *request)
{
    keeper_client_forget(request->service->keeper, request->tag);
}

void route_download(struct request *request)
{
    if (!request_find_sandbox(request))
        return;
    request->tag = keeper_client_open(request->service->keeper, request->sandbox->id,
                                      wanted_path(request), opened, request);
    request_wait(request, cancel_open);
}

void route_file(struct request *request)
{
    struct problem problem;
    if (*request->parameter && *request->second_parameter) {
        route_download(request);
        return;
    }
    problem_set(&problem, PROBLEM_INVALID_FIELD,
                "Say which file: ?sandbox_id=… or ?sandbox_name=…, and &file_path=….");
    answer_problem(request, &problem);
}
