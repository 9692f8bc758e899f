/* Running code, and what goes with it: input, interrupting, restarting. */
#include <string.h>

#include "base/attributes.h"
#include "library/complaint.h"
#include "library/events.h"
#include "library/order.h"
#include "library/path.h"
#include "library/patience.h"
#include "library/result.h"

enum mode {
    WHOLE,
    STREAMING,
    DETACHED
};

static int write_code(const struct husk_code *code, enum mode mode, char **ret,
                      struct husk_error *error)
{
    struct order order;
    if (!code || !code->code)
        return complain(error, HUSK_ERROR_ARGUMENT, "There is no code: it is NULL.");
    if (code->ask && (mode != STREAMING || code->stdin_text))
        return complain(error, HUSK_ERROR_ARGUMENT,
                        "ask works when streaming only, and without stdin_text.");
    /* The service takes this one text for something else. */
    if (mode == STREAMING && code->stdin_text && !strcmp(code->stdin_text, "ask"))
        return complain(error, HUSK_ERROR_ARGUMENT,
                        "stdin_text \"ask\" has a meaning of its own; pass \"ask\\n\".");
    order_begin(&order, error);
    order_put_bytes(&order, "code", code->code, code->length ? code->length : strlen(code->code));
    order_put_real(&order, "timeout", code->timeout);
    order_put_text(&order, "stdin", code->ask ? "ask" : code->stdin_text);
    order_put_variables(&order, code->variables, code->variable_count);
    order_put_flag(&order, "colors", code->colors);
    order_put_flag(&order, "auto_install", code->auto_install);
    order_put_flag(&order, "detach", mode == DETACHED);
    return order_text(&order, ret);
}

/* All that the three ways have in common. `body` is the caller's to free. */
static int prepare(struct path *path, const char *sandbox, const struct husk_code *code,
                   enum mode mode, char **body)
{
    path_begin(path, sandbox, "/execute", path->error);
    return path->result < 0 ? path->result : write_code(code, mode, body, path->error);
}

int husk_execute(struct husk *husk, const char *sandbox, const struct husk_code *code,
                 struct husk_result **ret, struct husk_error *error)
{
    _cleanup_path_ struct path path = {.error = error};
    _cleanup_free_ char *body = NULL;
    void *content;
    int r = prepare(&path, sandbox, code, WHOLE, &body);
    if (r < 0)
        return r;
    struct exchange exchange = {.method = "POST",
                                .path = path.text.data,
                                .body = body,
                                .patience = patience_for(code->timeout)};
    r = answers_get(husk, &exchange, &result_whole, &content, error);
    if (r == 0)
        *ret = content;
    return r;
}

int husk_execute_streaming(struct husk *husk, const char *sandbox, const struct husk_code *code,
                           husk_on_event on_event, void *user, struct husk_result **ret,
                           struct husk_error *error)
{
    _cleanup_path_ struct path path = {.error = error};
    _cleanup_free_ char *body = NULL;
    int r = prepare(&path, sandbox, code, STREAMING, &body);
    if (r < 0)
        return r;
    struct exchange exchange = {.method = "POST", .path = path.text.data, .body = body};
    return events_run_result(husk, &exchange, on_event, user, ret, error);
}

int husk_execute_detached(struct husk *husk, const char *sandbox, const struct husk_code *code,
                          char execution_id[HUSK_ID_SIZE], struct husk_error *error)
{
    _cleanup_path_ struct path path = {.error = error};
    _cleanup_free_ char *body = NULL;
    int r = prepare(&path, sandbox, code, DETACHED, &body);
    if (r < 0)
        return r;
    struct exchange exchange = {.method = "POST", .path = path.text.data, .body = body};
    return answers_id(husk, &exchange, "execution_id", execution_id, error);
}

int husk_execution(struct husk *husk, const char *sandbox, const char *execution_id,
                   struct husk_result **ret, struct husk_error *error)
{
    _cleanup_path_ struct path path;
    void *content;
    path_begin(&path, sandbox, "/executions/", error);
    path_add_name(&path, execution_id, "execution");
    struct exchange exchange = {.method = "GET", .path = path.text.data, .reads = true};
    int r = path.result < 0 ? path.result
                            : answers_get(husk, &exchange, &result_fetched, &content, error);
    if (r == 0)
        *ret = content;
    return r;
}

/* --- while it runs ------------------------------------------------------------------------------ */

static int post(struct husk *husk, const char *sandbox, const char *route, const char *body,
                struct husk_error *error)
{
    _cleanup_path_ struct path path;
    path_begin(&path, sandbox, route, error);
    struct exchange exchange = {
        .method = "POST", .path = path.text.data, .body = body, .patience = CLIENT_SLOW_SECONDS};
    return path.result < 0 ? path.result : exchange_order(husk, &exchange, error);
}

int husk_input(struct husk *husk, const char *sandbox, const char *value, struct husk_error *error)
{
    _cleanup_free_ char *body = NULL;
    struct order order;
    order_begin(&order, error);
    if (value)
        order_put_text(&order, "value", value);
    else
        order_put(&order, "value", json_null());
    int r = order_text(&order, &body);
    return r < 0 ? r : post(husk, sandbox, "/input", body, error);
}

int husk_interrupt(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    return post(husk, sandbox, "/interrupt", "{}", error);
}

int husk_restart(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    return post(husk, sandbox, "/restart", "{}", error);
}
