/* Files on their way out: into memory, into a file of this machine, into a function of the caller. Never a part that looks like
 * the whole: the answer must tell its length (exchange.h: whole), and a file gets its name when it is complete. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/attributes.h"
#include "husk/limits.h"
#include "library/client.h"
#include "library/complaint.h"
#include "library/exchange.h"
#include "library/gift.h"
#include "library/local_file.h"
#include "library/path.h"

static int get(struct husk *husk, const struct path *path, exchange_sink sink, void *user,
               struct answer *ret)
{
    struct exchange exchange = {.method = "GET",
                                .path = path->text.data,
                                .accept = "*/*",
                                .reads = true,
                                .patience = CLIENT_UNPACK_SECONDS,
                                .whole = true,
                                .tells = true,
                                .sink = sink,
                                .user = user};
    return path->result < 0 ? path->result : exchange_run(husk, &exchange, ret, path->error);
}

static void begin(struct path *path, const char *sandbox, const char *file,
                  struct husk_error *error)
{
    path_begin(path, sandbox, "/download/", error);
    path_add_file(path, file);
}

/* --- into a function ---------------------------------------------------------------------------- */

struct outlet {
    husk_sink sink;
    void *user;
};

static int pass_on(void *user, const char *data, size_t length, struct husk_error *error)
{
    const struct outlet *outlet = user;
    if (outlet->sink(data, length, outlet->user) == 0)
        return 0;
    return complain(error, HUSK_ERROR_CANCELLED,
                    "The function that the file goes to ended the call.");
}

int husk_download_to(struct husk *husk, const char *sandbox, const char *path, husk_sink sink,
                     void *user, struct husk_error *error)
{
    _cleanup_path_ struct path route;
    struct outlet outlet = {.sink = sink, .user = user};
    struct answer answer;
    if (!sink)
        return complain(error, HUSK_ERROR_ARGUMENT, "There is no sink: it is NULL.");
    begin(&route, sandbox, path, error);
    int r = get(husk, &route, pass_on, &outlet, &answer);
    if (r == 0)
        exchange_answer_free(&answer);
    return r;
}

/* --- into memory -------------------------------------------------------------------------------- */

static int collect(void *user, const char *data, size_t length, struct husk_error *error)
{
    struct buffer *buffer = user;
    int r = buffer_append(buffer, data, length);
    if (r == -ENOSPC)
        return complain(error, HUSK_ERROR_ANSWER,
                        "The file has more than the %zu bytes that were allowed.", buffer->limit);
    return r < 0 ? complain_memory(error) : 0;
}

static int make_content(struct buffer *bytes, const char *type, struct husk_content **ret,
                        struct husk_error *error)
{
    struct husk_content *content = gift_new(sizeof *content);
    size_t length = bytes->length;
    char *data = content ? gift_take(content, buffer_take(bytes)) : NULL;
    char *copy = data ? gift_add(content, strlen(type) + 1) : NULL;
    if (!copy) {
        (void)gift_free(content);
        return complain_memory(error);
    }
    memcpy(copy, type, strlen(type));
    *content = (struct husk_content){.data = {data, length}, .type = copy};
    *ret = content;
    return 0;
}

int husk_download(struct husk *husk, const char *sandbox, const char *path, size_t limit,
                  struct husk_content **ret, struct husk_error *error)
{
    _cleanup_path_ struct path route;
    _cleanup_buffer_ struct buffer bytes = BUFFER_LIMITED(limit ? limit : MAX_UPLOAD_BYTES);
    struct answer answer;
    begin(&route, sandbox, path, error);
    int r = get(husk, &route, collect, &bytes, &answer);
    if (r < 0)
        return r;
    exchange_answer_free(&answer);
    return make_content(&bytes, answer.type, ret, error);
}

struct husk_content *husk_content_free(struct husk_content *content)
{
    return gift_free(content);
}

/* --- into a file -------------------------------------------------------------------------------- */

static int write_local(void *user, const char *data, size_t length, struct husk_error *error)
{
    return local_file_write(user, data, length, error);
}

int husk_download_file(struct husk *husk, const char *sandbox, const char *path, const char *local,
                       struct husk_error *error)
{
    _cleanup_path_ struct path route;
    struct local_file *file;
    struct answer answer;
    begin(&route, sandbox, path, error);
    if (route.result < 0)
        return route.result;
    int r = local_file_new(husk, local, &file, error);
    if (r < 0)
        return r;
    r = get(husk, &route, write_local, file, &answer);
    if (r == 0) {
        exchange_answer_free(&answer);
        r = local_file_finish(file, error);
    }
    (void)local_file_free(file);
    return r;
}
