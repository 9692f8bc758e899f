#include "library/exchange.h"

#include <string.h>

#include "husk/limits.h"
#include "library/client.h"
#include "library/complaint.h"
#include "library/transfer.h"

enum {
    FIRST_RETRY_MS = 100 /* doubled each time */
};

void exchange_answer_free(struct answer *answer)
{
    buffer_free(&answer->body);
}

/* What the status makes of it. */
static int judge(const struct husk *husk, const struct exchange *exchange,
                 const struct answer *answer, struct husk_error *error)
{
    bool good =
        exchange->sink ? answer->status == 200 : answer->status >= 200 && answer->status <= 202;
    if (good || (exchange->also_503 && answer->status == 503))
        return 0;
    return complain_refusal(error, &(struct refusal){.status = answer->status,
                                                     .retry_after = answer->retry_after,
                                                     .body = answer->body.data,
                                                     .length = answer->body.length,
                                                     .base = husk->url});
}

static int attempt(struct husk *husk, const struct exchange *exchange, struct answer *answer,
                   struct husk_error *error)
{
    *answer = (struct answer){0};
    int r = transfer_run(husk, exchange, answer, error);
    if (r == 0)
        r = judge(husk, exchange, answer, error);
    if (r == 0 && !buffer_text(&answer->body))
        r = complain_memory(error);
    if (r < 0)
        exchange_answer_free(answer);
    return r;
}

/* May the same request have another outcome in a moment? */
static bool may_pass(const struct husk_error *error)
{
    return error->kind == HUSK_ERROR_CONNECT || error->http_status == 503;
}

static int pause_ms(const struct husk_error *error, unsigned attempts)
{
    int asked = error->retry_after;
    if (asked > CLIENT_RETRY_SECONDS)
        asked = CLIENT_RETRY_SECONDS;
    return asked > 0 ? asked * 1000 : FIRST_RETRY_MS << attempts;
}

static int run(struct husk *husk, const struct exchange *exchange, struct answer *ret,
               struct husk_error *error)
{
    for (unsigned attempts = 0;; attempts++) {
        int r = attempt(husk, exchange, ret, error);
        if (r == 0 || !exchange->reads || attempts == HUSK_RETRIES || !may_pass(error))
            return r;
        if (client_wait(husk, pause_ms(error, attempts)))
            return complain(error, HUSK_ERROR_CANCELLED, "The call was cancelled.");
    }
}

int exchange_run(struct husk *husk, const struct exchange *exchange, struct answer *ret,
                 struct husk_error *error)
{
    struct husk_error unread;
    if (!error)
        error = &unread;
    if (atomic_exchange(&husk->busy, true))
        return complain(error, HUSK_ERROR_ARGUMENT,
                        "This client is in use, by another thread or by the call whose callback "
                        "this is. Use another one: husk_clone().");
    int r = run(husk, exchange, ret, error);
    atomic_store(&husk->busy, false);
    return r;
}

int exchange_order(struct husk *husk, const struct exchange *exchange, struct husk_error *error)
{
    struct answer answer;
    int r = exchange_run(husk, exchange, &answer, error);
    if (r == 0)
        exchange_answer_free(&answer);
    return r;
}
