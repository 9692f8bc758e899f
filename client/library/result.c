#include "library/result.h"

#include "base/attributes.h"
#include "library/entries.h"
#include "library/gift.h"

enum {
    NOT_OVER = -1 /* exit code of a command that runs */
};

void result_read_summary(struct reading *reading, const json_t *json, const char *text,
                         struct husk_result *ret)
{
    if (!reading_is_object(reading, json, "it"))
        return;
    bool command = json_object_get(json, "exit_code") != NULL;
    *ret = (struct husk_result){
        .stdout_text = reading_bytes(reading, json, "stdout"),
        .stderr_text = reading_bytes(reading, json, "stderr"),
        .error = reading_text(reading, json, "error", NULL),
        .error_value = reading_text(reading, json, "error_value", NULL),
        .traceback = reading_text(reading, json, "traceback", NULL),
        .status = reading_required_text(reading, json, "status"),
        .state_lost = reading_flag(reading, json, "state_lost"),
        .truncated = reading_flag(reading, json, "truncated"),
        .execution_count = reading_number(reading, json, "execution_count"),
        .duration_ms = reading_real(reading, json, "duration_ms"),
        .exit_code = reading_int(reading, json, "exit_code", command ? NOT_OVER : 0),
        .signal = reading_text(reading, json, "signal", NULL),
        .command_id = reading_text(reading, json, "command_id", ""),
        .json = text,
    };
    ret->outputs =
        entries_outputs(reading, reading_list(reading, json, "results"), &ret->output_count);
    ret->files = entries_files(reading, reading_list(reading, json, "files"), &ret->file_count);
}

static void read_fetched(struct reading *reading, const json_t *json, const char *text,
                         void *content)
{
    result_read_summary(reading, json, text, content);
}

static void read_whole(struct reading *reading, const json_t *json, const char *text, void *content)
{
    result_read_summary(reading, json, text, content);
    (void)reading_required_bytes(reading, json, "stdout");
    (void)reading_required_bytes(reading, json, "stderr");
}

const struct answer_shape result_whole = {sizeof(struct husk_result), read_whole};
const struct answer_shape result_fetched = {sizeof(struct husk_result), read_fetched};

struct husk_result *husk_result_free(struct husk_result *result)
{
    return gift_free(result);
}
