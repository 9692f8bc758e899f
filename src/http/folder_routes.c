/* Folders of a sandbox: listing, removing, and sending one as a tar. A porter does the work (huskd/porter_client.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/memory.h"
#include "base/text.h"
#include "http/download.h"
#include "http/request.h"
#include "http/response.h"
#include "http/routes.h"
#include "http/stream.h"
#include "huskd/file_path.h"
#include "huskd/file_problem.h"
#include "huskd/porter_client.h"
#include "huskd/problem.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "huskd/uri.h"

/* Belongs to its request (request->own). */
struct folder_job {
    struct request *request;
    struct porter_client *porter; /* NULL: it has ended */
    enum porter_job job;
    char *path; /* of what it is about, for answers */
    bool incomplete;
};

static void job_free(void *own)
{
    struct folder_job *job = own;
    porter_client_free(job->porter);
    free(job->path);
    free(job);
}

static void stop(void *user)
{
    struct folder_job *job = user;
    porter_client_free(TAKE_POINTER(job->porter));
}

/* Nothing of the answer was sent: what is waiting for it goes, too. */
static void cancel(struct request *request)
{
    stop(request->own);
    if (request->stream)
        stream_free(TAKE_POINTER(request->stream));
}

/* --- sending ------------------------------------------------------------------------------------ */

static void credit(void *user, size_t bytes _unused_)
{
    struct folder_job *job = user;
    if (job->porter)
        porter_client_resume(job->porter);
}

static void describe(void *user, struct MHD_Response *response)
{
    const struct folder_job *job = user;
    if (job->job == PORTER_PACK) {
        const char *slash = strrchr(job->path, '/');
        const char *name = slash ? slash + 1 : job->path;
        _cleanup_free_ char *file = must_format("%s.tar", *name ? name : "home");
        download_describe(response, file);
        return;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    if (job->incomplete)
        (void)MHD_add_response_header(response, "X-Husk-Incomplete", "true");
}

static const struct stream_source source = {.credit = credit, .stop = stop, .describe = describe};

static void begun(const struct porter_begin *begin, void *user)
{
    struct folder_job *job = user;
    job->incomplete = begin->incomplete;
}

static void data(const char *bytes, size_t length, void *user)
{
    struct folder_job *job = user;
    struct stream *stream = job->request->stream;
    stream_add(stream, bytes, length);
    if (stream_backlog(stream) > STREAM_WINDOW_BYTES / 2)
        porter_client_pause(job->porter);
}

/* --- its end ------------------------------------------------------------------------------------ */

static void answer_end(struct folder_job *job, const struct problem *problem)
{
    struct request *request = job->request;
    if (request->stream)
        stream_end(request->stream, problem);
    else if (problem)
        answer_problem(request, problem);
    else
        answer_json(request, MHD_HTTP_OK,
                    json_pack("{s:s, s:s, s:s}", "status", "success", "message", "Removed", "path",
                              job->path));
}

/* The sandbox may have ended since: that is the better answer then. */
static bool find_sandbox(const struct folder_job *job, struct problem *problem)
{
    struct sandbox *sandbox = service_find(job->request->service, job->request->caller,
                                           job->request->sandbox_text, problem);
    if (sandbox)
        sandbox_used(sandbox);
    return sandbox != NULL;
}

static void refused(int error, void *user)
{
    struct folder_job *job = user;
    struct problem problem;
    stop(job);
    if (find_sandbox(job, &problem))
        file_problem(&problem, *job->path ? job->path : ".",
                     error == EXDEV || error == ELOOP || error == ENOTDIR ? ENOENT : error);
    answer_end(job, &problem);
}

static void ended(const struct porter_end *end, void *user)
{
    struct folder_job *job = user;
    struct problem problem;
    stop(job);
    bool alive = find_sandbox(job, &problem);
    if (alive && end->status < 0)
        file_problem_said(&problem, -end->status, end->text);
    answer_end(job, alive && end->status == 0 ? NULL : &problem);
}

/* Takes the place of whatever the request waited for. */
static void start(struct request *request, const struct porter_task *task, const char *path)
{
    struct folder_job *job = must_alloc(sizeof *job);
    struct porter_events events = {
        .refused = refused, .begun = begun, .data = data, .ended = ended, .user = job};
    *job = (struct folder_job){.request = request, .job = task->job, .path = must_copy(path)};
    request->own = job;
    request->own_free = job_free;
    request->cancel = cancel;
    if (task->job != PORTER_REMOVE)
        request->stream = stream_new_from(request, STREAM_BYTES, &source, job);
    job->porter =
        porter_client_new(request->service->loop, request->service->keeper, task, &events);
}

/* --- routes ------------------------------------------------------------------------------------- */

static bool clean(struct request *request, const char *text, char path[MAX_FILE_PATH_BYTES + 1])
{
    struct problem problem;
    int r = file_path_clean(text, path);
    if (r == 0)
        return true;
    file_problem_of_path(&problem, text, r);
    answer_problem(request, &problem);
    return false;
}

void route_list_files(struct request *request)
{
    char text[MAX_FILE_PATH_BYTES + 1] = "", path[MAX_FILE_PATH_BYTES + 1], recursive[8];
    struct problem problem;
    bool deep = true;
    if (!request_find_sandbox(request))
        return;
    int has_recursive = uri_query(request->query, "recursive", recursive, sizeof recursive);
    if (uri_query(request->query, "path", text, sizeof text) < 0 || has_recursive < 0 ||
        (has_recursive > 0 && parse_bool(recursive, &deep) < 0)) {
        problem_set(&problem, PROBLEM_INVALID_FIELD,
                    "path must be a path in UTF-8 of at most 1024 bytes, and recursive 1 or 0.");
        answer_problem(request, &problem);
        return;
    }
    if (!clean(request, text, path))
        return;
    struct porter_task task = {.sandbox = request->sandbox->id,
                               .job = PORTER_LIST,
                               .flags =
                                   (deep ? 0 : PORTER_ONE_LEVEL) | (*path ? 0 : PORTER_WHOLE_HOME),
                               .folder = *path ? path : ".",
                               .path = path,
                               .archive = -1};
    request_wait(request, cancel);
    start(request, &task, path);
}

void route_remove_file(struct request *request)
{
    char path[MAX_FILE_PATH_BYTES + 1], folder[MAX_FILE_PATH_BYTES + 1] = ".";
    struct problem problem;
    if (!request_find_sandbox(request) || !clean(request, request->second_parameter, path))
        return;
    if (!*path) {
        problem_set(&problem, PROBLEM_INVALID_FIELD,
                    "The working directory itself cannot be removed. Remove what is in it, or "
                    "close the sandbox.");
        answer_problem(request, &problem);
        return;
    }
    const char *slash = strrchr(path, '/');
    if (slash) {
        memcpy(folder, path, (size_t)(slash - path));
        folder[slash - path] = '\0';
    }
    struct porter_task task = {.sandbox = request->sandbox->id,
                               .job = PORTER_REMOVE,
                               .folder = folder,
                               .path = slash ? slash + 1 : path,
                               .archive = -1};
    request_wait(request, cancel);
    start(request, &task, path);
}

void folder_download(struct request *request, struct id sandbox, const char *path)
{
    char plain[MAX_FILE_PATH_BYTES + 1];
    if (file_path_clean(path, plain) < 0)
        (void)format_text(plain, sizeof plain, "folder"); /* "a/..": no such name in a tar */
    const char *slash = strrchr(plain, '/');
    struct porter_task task = {.sandbox = sandbox,
                               .job = PORTER_PACK,
                               .flags = *plain ? 0 : PORTER_WHOLE_HOME,
                               .folder = path,
                               .path = slash ? slash + 1 : plain,
                               .archive = -1};
    start(request, &task, plain);
}
