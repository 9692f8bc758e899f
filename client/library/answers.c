#include "library/answers.h"

#include <string.h>

#include "library/complaint.h"
#include "library/gift.h"

int answers_read(struct answer *answer, const struct answer_shape *shape, void **ret,
                 struct husk_error *error)
{
    size_t length = answer->body.length;
    void *content = gift_new(shape->size);
    char *body = content ? gift_take(content, buffer_take(&answer->body)) : NULL;
    struct reading reading = {.gift = content, .error = error, .http_status = answer->status};
    exchange_answer_free(answer);
    if (!body) {
        (void)gift_free(content);
        return complain_memory(error);
    }
    const json_t *json = reading_parse(&reading, body, length);
    if (json)
        shape->read(&reading, json, body, content);
    if (reading.result < 0)
        (void)gift_free(content);
    else
        *ret = content;
    return reading.result;
}

int answers_get(struct husk *husk, const struct exchange *exchange,
                const struct answer_shape *shape, void **ret, struct husk_error *error)
{
    struct answer answer;
    int r = exchange_run(husk, exchange, &answer, error);
    return r < 0 ? r : answers_read(&answer, shape, ret, error);
}

/* --- ids ---------------------------------------------------------------------------------------- */

struct named {
    const char *execution_id, *command_id;
};

static void read_named(struct reading *reading, const json_t *json, const char *text _unused_,
                       void *content)
{
    struct named *named = content;
    if (!reading_is_object(reading, json, "it"))
        return;
    named->execution_id = reading_text(reading, json, "execution_id", "");
    named->command_id = reading_text(reading, json, "command_id", "");
}

int answers_id(struct husk *husk, const struct exchange *exchange, const char *key,
               char ret[HUSK_ID_SIZE], struct husk_error *error)
{
    static const struct answer_shape shape = {sizeof(struct named), read_named};
    void *content;
    int r = answers_get(husk, exchange, &shape, &content, error);
    if (r < 0)
        return r;
    const struct named *named = content;
    const char *id = !strcmp(key, "command_id") ? named->command_id : named->execution_id;
    size_t length = strlen(id);
    if (length > 0 && length < HUSK_ID_SIZE)
        memcpy(ret, id, length + 1);
    else
        r = complain(error, HUSK_ERROR_ANSWER, "The answer is not one of Husk: '%s' is no id.",
                     key);
    (void)gift_free(content);
    return r;
}
