/* What a prompt asks the kernel about code that is being typed. All of it only reads. */
#include <string.h>

#include "base/attributes.h"
#include "library/answers.h"
#include "library/complaint.h"
#include "library/gift.h"
#include "library/order.h"
#include "library/path.h"

/* --- reading ------------------------------------------------------------------------------------ */

static void read_completion(struct reading *reading, const json_t *json, const char *text,
                            void *content)
{
    struct husk_completion *ret = content;
    if (!reading_is_object(reading, json, "it"))
        return;
    const json_t *list = reading_list(reading, json, "matches");
    size_t count = json_array_size(list);
    const char **matches = reading_array(reading, count, sizeof *matches);
    if (!list)
        (void)reading_fail(reading, "the field 'matches'", "is missing");
    for (size_t i = 0; i < count && reading->result == 0; i++) {
        matches[i] = json_string_value(json_array_get(list, i));
        if (!matches[i])
            (void)reading_fail(reading, "an entry of matches", "is not a text");
    }
    *ret = (struct husk_completion){.matches = matches,
                                    .match_count = count,
                                    .start = reading_number(reading, json, "cursor_start"),
                                    .end = reading_number(reading, json, "cursor_end"),
                                    .json = text};
}

static void read_inspection(struct reading *reading, const json_t *json, const char *text,
                            void *content)
{
    struct husk_inspection *ret = content;
    if (!reading_is_object(reading, json, "it"))
        return;
    if (!json_object_get(json, "found"))
        (void)reading_fail(reading, "the field 'found'", "is missing");
    *ret = (struct husk_inspection){
        .found = reading_flag(reading, json, "found"),
        .text = reading_bytes(reading, reading_object(reading, json, "data"), "text/plain"),
        .json = text};
}

static void read_completeness(struct reading *reading, const json_t *json, const char *text,
                              void *content)
{
    struct husk_completeness *ret = content;
    if (!reading_is_object(reading, json, "it"))
        return;
    *ret = (struct husk_completeness){.status = reading_required_text(reading, json, "status"),
                                      .indent = reading_text(reading, json, "indent", ""),
                                      .json = text};
}

struct husk_completion *husk_completion_free(struct husk_completion *completion)
{
    return gift_free(completion);
}

struct husk_inspection *husk_inspection_free(struct husk_inspection *inspection)
{
    return gift_free(inspection);
}

struct husk_completeness *husk_completeness_free(struct husk_completeness *completeness)
{
    return gift_free(completeness);
}

/* --- asking ------------------------------------------------------------------------------------- */

struct question {
    const char *sandbox, *route, *code;
    bool pointed; /* it is about the place `cursor` */
    size_t cursor;
    int detail;
};

static int write_question(const struct question *question, char **ret, struct husk_error *error)
{
    struct order order;
    if (!question->code)
        return complain(error, HUSK_ERROR_ARGUMENT, "There is no code: it is NULL.");
    if (question->cursor > strlen(question->code))
        return complain(error, HUSK_ERROR_ARGUMENT, "The cursor is beyond the end of the code.");
    order_begin(&order, error);
    order_put_text(&order, "code", question->code);
    if (question->pointed)
        order_put(&order, "cursor", json_integer((json_int_t)question->cursor));
    if (question->detail)
        order_put(&order, "detail", json_integer(question->detail));
    return order_text(&order, ret);
}

static int ask(struct husk *husk, const struct question *question, const struct answer_shape *shape,
               void **ret, struct husk_error *error)
{
    _cleanup_path_ struct path path;
    _cleanup_free_ char *body = NULL;
    path_begin(&path, question->sandbox, question->route, error);
    if (path.result < 0)
        return path.result;
    int r = write_question(question, &body, error);
    if (r < 0)
        return r;
    struct exchange exchange = {
        .method = "POST", .path = path.text.data, .body = body, .reads = true};
    return answers_get(husk, &exchange, shape, ret, error);
}

int husk_complete(struct husk *husk, const char *sandbox, const char *code, size_t cursor,
                  struct husk_completion **ret, struct husk_error *error)
{
    static const struct answer_shape shape = {sizeof(struct husk_completion), read_completion};
    struct question question = {
        .sandbox = sandbox, .route = "/complete", .code = code, .pointed = true, .cursor = cursor};
    void *content;
    int r = ask(husk, &question, &shape, &content, error);
    if (r == 0)
        *ret = content;
    return r;
}

int husk_inspect(struct husk *husk, const char *sandbox, const char *code, size_t cursor,
                 int detail, struct husk_inspection **ret, struct husk_error *error)
{
    static const struct answer_shape shape = {sizeof(struct husk_inspection), read_inspection};
    struct question question = {.sandbox = sandbox,
                                .route = "/inspect",
                                .code = code,
                                .pointed = true,
                                .cursor = cursor,
                                .detail = detail};
    void *content;
    int r = ask(husk, &question, &shape, &content, error);
    if (r == 0)
        *ret = content;
    return r;
}

int husk_is_complete(struct husk *husk, const char *sandbox, const char *code,
                     struct husk_completeness **ret, struct husk_error *error)
{
    static const struct answer_shape shape = {sizeof(struct husk_completeness), read_completeness};
    struct question question = {.sandbox = sandbox, .route = "/is_complete", .code = code};
    void *content;
    int r = ask(husk, &question, &shape, &content, error);
    if (r == 0)
        *ret = content;
    return r;
}
