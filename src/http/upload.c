#include "http/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/failure.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "base/text.h"
#include "http/multipart.h"
#include "http/request.h"
#include "http/response.h"
#include "huskd/file_path.h"
#include "huskd/file_problem.h"
#include "huskd/keeper_client.h"
#include "huskd/porter_client.h"
#include "huskd/problem.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "huskd/uri.h"

struct upload_file {
    int fd;     /* -1: the keeper is asked for it, or has it already */
    char *name; /* as the client called it */
    char *path; /* where it goes */
    uint64_t size;
};

struct upload {
    struct request *request;
    struct id sandbox;
    struct multipart *form; /* NULL: a PUT */
    char *put_path;         /* of a PUT, until its file is there */
    struct upload_file *files;
    size_t count;
    unsigned parts;
    bool in_file, in_path;   /* the part that is being received */
    struct buffer file_path; /* field of that name, or from the query */
    bool has_path;
    bool extract;
    uint64_t tag;   /* of the question to the keeper */
    size_t at;      /* the file whose turn it is */
    bool replaced;  /* of the last one */
    size_t entries; /* unpacked */
    uint64_t bytes;
    struct porter_client *porter;
};

static void upload_free(void *own)
{
    struct upload *upload = own;
    porter_client_free(upload->porter);
    multipart_free(upload->form);
    free(upload->put_path);
    for (size_t i = 0; i < upload->count; i++) {
        close_fd(upload->files[i].fd);
        free(upload->files[i].name);
        free(upload->files[i].path);
    }
    upload->request->service->uploads -= upload->count;
    free(upload->files);
    buffer_free(&upload->file_path);
    free(upload);
}

static void refuse(struct upload *upload, enum problem_kind kind, const char *sentence)
{
    struct problem problem;
    problem_set(&problem, kind, "%s", sentence);
    answer_problem(upload->request, &problem);
}

static void refuse_errno(struct upload *upload, const char *path, int error)
{
    struct problem problem;
    file_problem(&problem, path, error);
    answer_problem(upload->request, &problem);
}

/* The sandbox may have ended since: that is the better answer then. */
static struct sandbox *find_sandbox(struct upload *upload)
{
    struct problem problem;
    struct sandbox *sandbox = service_find(upload->request->service, upload->request->caller,
                                           upload->request->sandbox_text, &problem);
    if (!sandbox)
        answer_problem(upload->request, &problem);
    return sandbox;
}

static void cancel(struct request *request)
{
    struct upload *upload = request->own;
    keeper_client_forget(request->service->keeper, upload->tag);
    porter_client_free(upload->porter);
    upload->porter = NULL;
}

static struct upload *upload_new(struct request *request)
{
    if (!request_find_sandbox(request))
        return NULL;
    struct upload *upload = must_alloc(sizeof *upload);
    upload->request = request;
    upload->sandbox = request->sandbox->id;
    upload->file_path = BUFFER_LIMITED(MAX_FILE_PATH_BYTES);
    request->own = upload;
    request->own_free = upload_free;
    return upload;
}

static void place_next(struct upload *upload);

/* --- receiving ---------------------------------------------------------------------------------- */

static void file_made(const struct keeper_message *answer, int fd, void *user)
{
    struct upload *upload = user;
    struct upload_file *file = &upload->files[upload->count - 1];
    if (!find_sandbox(upload))
        close_fd(fd);
    else if (fd < 0)
        refuse_errno(upload, file->name, answer->status < 0 ? -answer->status : EPROTO);
    else
        file->fd = fd;
    if (file->fd < 0)
        return;
    if (upload->request->phase == REQUEST_PAUSED)
        request_go_on(upload->request);
    else
        place_next(upload);
}

/* A file begins: whoever calls this waits until there is a place for it. False: that is answered. */
static bool add_file(struct upload *upload, const char *name)
{
    struct service *service = upload->request->service;
    if (service->uploads >= MAX_OPEN_UPLOADS) {
        refuse(upload, PROBLEM_FILE_UNAVAILABLE,
               "Too many files are being uploaded at the same time. Try again in a moment.");
        return false;
    }
    struct upload_file *files = reallocarray(upload->files, upload->count + 1, sizeof *files);
    if (!files) {
        refuse(upload, PROBLEM_OUT_OF_MEMORY, "There is no memory for this. Try again later.");
        return false;
    }
    upload->files = files;
    files[upload->count++] = (struct upload_file){.fd = -1, .name = must_copy(name)};
    service->uploads++;
    struct keeper_message question = {.type = KEEPER_MAKE_FILE};
    memcpy(question.id, upload->sandbox.bytes, sizeof question.id);
    upload->tag = keeper_client_ask_file(service->keeper, &question, NULL, -1, file_made, upload);
    return true;
}

/* To a tmpfs: it does not block. False: that is answered. */
static bool add_content(struct upload *upload, const char *data, size_t length)
{
    struct upload_file *file = &upload->files[upload->count - 1];
    int r = write_all(file->fd, data, length);
    if (r < 0) {
        refuse_errno(upload, file->name, -r);
        return false;
    }
    file->size += length;
    return true;
}

static void put_begin(struct request *request)
{
    char path[MAX_FILE_PATH_BYTES + 1];
    struct problem problem;
    int r = file_path_clean(request->second_parameter, path);
    if (r < 0 || !*path ||
        request->second_parameter[strlen(request->second_parameter) - 1] == '/') {
        file_problem_of_path(&problem, request->second_parameter, r);
        answer_problem(request, &problem);
        return;
    }
    struct upload *upload = upload_new(request);
    if (upload)
        upload->put_path = must_copy(path);
}

static bool add_put_file(struct upload *upload)
{
    if (!add_file(upload, upload->put_path))
        return false;
    upload->files[0].path = TAKE_POINTER(upload->put_path);
    return true;
}

static size_t put_take(struct request *request, const char *data, size_t length)
{
    struct upload *upload = request->own;
    if (!find_sandbox(upload))
        return length;
    if (upload->count == 0) {
        if (add_put_file(upload))
            request_pause(request, cancel);
        return 0;
    }
    (void)add_content(upload, data, length);
    return length;
}

const struct body_taker upload_put = {.begin = put_begin, .take = put_take};

/* --- forms -------------------------------------------------------------------------------------- */

static bool part_begins(const struct multipart_part *part, void *user)
{
    struct upload *upload = user;
    upload->in_file = part->is_file || !strcmp(part->name, "file");
    upload->in_path = !upload->in_file && !strcmp(part->name, "file_path");
    if (++upload->parts > MAX_FORM_PARTS || (upload->in_file && upload->count == MAX_FORM_FILES)) {
        refuse(upload, PROBLEM_INVALID_FIELD,
               "The form has too many parts: at most 100 files. Pack them into an archive and "
               "upload that with ?extract=1.");
        return false;
    }
    if (upload->in_path) {
        buffer_clear(&upload->file_path);
        upload->has_path = true;
    }
    if (!upload->in_file)
        return true;
    if (add_file(upload, part->file_name))
        request_pause(upload->request, cancel);
    return false;
}

static bool part_content(const char *data, size_t length, void *user)
{
    struct upload *upload = user;
    if (upload->in_file)
        return add_content(upload, data, length);
    if (upload->in_path && buffer_append(&upload->file_path, data, length) < 0) {
        refuse(upload, PROBLEM_INVALID_FIELD, "file_path is too long: at most 1024 bytes.");
        return false;
    }
    return true;
}

static bool read_query(struct upload *upload)
{
    char path[MAX_FILE_PATH_BYTES + 1], extract[8];
    const char *query = upload->request->query;
    int has_path = uri_query(query, "file_path", path, sizeof path);
    int has_extract = uri_query(query, "extract", extract, sizeof extract);
    if (has_path < 0 || has_extract < 0 ||
        (has_extract > 0 && *extract && parse_bool(extract, &upload->extract) < 0)) {
        refuse(upload, PROBLEM_INVALID_FIELD,
               "file_path must be a path in UTF-8 of at most 1024 bytes, and extract 1 or 0.");
        return false;
    }
    if (has_extract > 0 && !*extract)
        upload->extract = true;
    upload->has_path = has_path > 0;
    return has_path <= 0 || buffer_append_text(&upload->file_path, path) == 0;
}

static void form_begin(struct request *request)
{
    char boundary[MULTIPART_BOUNDARY_SIZE];
    const char *type = request_header(request, MHD_HTTP_HEADER_CONTENT_TYPE);
    struct upload *upload = upload_new(request);
    if (!upload || !read_query(upload))
        return;
    if (multipart_boundary(type, boundary) < 0) {
        refuse(upload, PROBLEM_UNSUPPORTED_MEDIA,
               "Send a form: multipart/form-data with one or more files in the field 'file' (curl "
               "-F file=@data.csv). For a plain body there is PUT /sandbox/{id}/files/{path}.");
        return;
    }
    struct multipart_events events = {.part = part_begins, .data = part_content, .user = upload};
    upload->form = multipart_new(boundary, &events);
}

static size_t form_take(struct request *request, const char *data, size_t length)
{
    struct upload *upload = request->own;
    if (!find_sandbox(upload))
        return length;
    ssize_t taken = multipart_feed(upload->form, data, length);
    if (taken < 0)
        refuse(upload, PROBLEM_MALFORMED_REQUEST,
               "The form is not well-formed, or a name in it is too long or not UTF-8.");
    return taken < 0 ? length : (size_t)taken;
}

const struct body_taker upload_form = {.begin = form_begin, .take = form_take};

/* --- to their places ---------------------------------------------------------------------------- */

/* With `file_path` given, one file goes there, several go below it. */
static int choose_path(const struct upload *upload, const char *file_path, bool folder,
                       const char *name, char path[MAX_FILE_PATH_BYTES + 1])
{
    if (!folder)
        return file_path_clean(file_path, path);
    name = file_path_last(name);
    if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
        return -EINVAL;
    bool slash = upload->has_path && file_path[strlen(file_path) - 1] != '/';
    _cleanup_free_ char *joined =
        must_format("%s%s%s", upload->has_path ? file_path : "", slash ? "/" : "", name);
    return file_path_clean(joined, path);
}

static bool choose_paths(struct upload *upload)
{
    const char *file_path = buffer_text(&upload->file_path);
    struct problem problem;
    if (!file_path || strlen(file_path) != upload->file_path.length) {
        refuse(upload, PROBLEM_INVALID_FIELD, "file_path must not contain NUL.");
        return false;
    }
    upload->has_path = upload->has_path && *file_path;
    bool folder = !upload->has_path || upload->count > 1 || upload->extract ||
                  file_path[strlen(file_path) - 1] == '/';
    for (size_t i = 0; i < upload->count; i++) {
        char path[MAX_FILE_PATH_BYTES + 1];
        struct upload_file *file = &upload->files[i];
        int r = upload->extract ? file_path_clean(file_path, path)
                                : choose_path(upload, file_path, folder, file->name, path);
        if (r == 0 && !*path && !upload->extract)
            r = -EINVAL;
        if (r < 0) {
            file_problem_of_path(&problem, upload->has_path ? file_path : file->name, r);
            answer_problem(upload->request, &problem);
            return false;
        }
        file->path = must_copy(path);
    }
    return true;
}

static json_t *file_json(const struct upload_file *file)
{
    return json_pack("{s:s, s:I}", "path", file->path, "size", (json_int_t)file->size);
}

static void answer_all(struct upload *upload)
{
    json_t *files = json_array();
    if (!upload->form) {
        json_decref(files);
        answer_json(upload->request, upload->replaced ? MHD_HTTP_OK : MHD_HTTP_CREATED,
                    file_json(&upload->files[0]));
        return;
    }
    const char *first = upload->files[0].path;
    for (size_t i = 0; i < upload->count; i++)
        (void)json_array_append_new(files, file_json(&upload->files[i]));
    json_t *answer = json_pack("{s:s}", "file_path", *first ? first : ".");
    if (upload->extract) {
        (void)json_object_set_new(answer, "extracted",
                                  json_pack("{s:I, s:I}", "entries", (json_int_t)upload->entries,
                                            "bytes", (json_int_t)upload->bytes));
        json_decref(files);
    } else {
        (void)json_object_set_new(answer, "files", files);
    }
    answer_json(upload->request, MHD_HTTP_OK, answer);
}

static void placed(const struct keeper_message *answer, int fd, void *user)
{
    struct upload *upload = user;
    close_fd(fd);
    if (!find_sandbox(upload))
        return;
    if (answer->status < 0) {
        refuse_errno(upload, upload->files[upload->at].path, -answer->status);
        return;
    }
    upload->replaced = answer->flags & KEEPER_REPLACED;
    upload->at++;
    place_next(upload);
}

static void place(struct upload *upload, struct upload_file *file)
{
    struct keeper_message question = {.type = KEEPER_PLACE};
    memcpy(question.id, upload->sandbox.bytes, sizeof question.id);
    upload->tag = keeper_client_ask_file(upload->request->service->keeper, &question, file->path,
                                         TAKE_DESCRIPTOR(file->fd), placed, upload);
}

static void unpack_refused(int error, void *user)
{
    struct upload *upload = user;
    if (find_sandbox(upload))
        refuse_errno(upload, upload->files[upload->at].name, error);
}

static void unpacked(const struct porter_end *end, void *user)
{
    struct upload *upload = user;
    struct problem problem;
    porter_client_free(TAKE_POINTER(upload->porter));
    if (!find_sandbox(upload))
        return;
    if (end->status < 0) {
        file_problem_said(&problem, -end->status, end->text);
        answer_problem(upload->request, &problem);
        return;
    }
    upload->entries += end->entries;
    upload->bytes += end->bytes;
    upload->files[upload->at].fd = close_fd(upload->files[upload->at].fd);
    upload->at++;
    place_next(upload);
}

static void unpack(struct upload *upload, const struct upload_file *file)
{
    struct porter_task task = {.sandbox = upload->sandbox,
                               .job = PORTER_UNPACK,
                               .folder = ".",
                               .path = file->path,
                               .archive = file->fd};
    struct porter_events events = {.refused = unpack_refused, .ended = unpacked, .user = upload};
    upload->porter = porter_client_new(upload->request->service->loop,
                                       upload->request->service->keeper, &task, &events);
}

static void place_next(struct upload *upload)
{
    struct upload_file *file = &upload->files[upload->at];
    struct sandbox *sandbox = find_sandbox(upload);
    if (!sandbox)
        return;
    sandbox_used(sandbox);
    if (upload->at == upload->count)
        answer_all(upload);
    else if (upload->extract)
        unpack(upload, file);
    else
        place(upload, file);
}

/* Nothing was received of an empty file: it is made now. */
void route_put_file(struct request *request)
{
    struct upload *upload = request->own;
    if (upload->count == 0 && !add_put_file(upload))
        return;
    request_wait(request, cancel);
    if (upload->files[0].fd >= 0)
        place_next(upload);
}

void route_upload(struct request *request)
{
    struct upload *upload = request->own;
    if (!multipart_complete(upload->form)) {
        refuse(upload, PROBLEM_MALFORMED_REQUEST, "The form ends before its last boundary.");
        return;
    }
    if (upload->count == 0) {
        refuse(upload, PROBLEM_INVALID_FIELD,
               "The form has no file: send it in the field 'file' (curl -F file=@data.csv).");
        return;
    }
    if (!choose_paths(upload))
        return;
    request_wait(request, cancel);
    place_next(upload);
}
