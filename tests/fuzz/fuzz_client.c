/* Whatever answers where Husk should: libhusk's answers and streams, what the command lets through to a terminal, and the events and messages
 * that `husk mcp` passes on. Instead of the network (library/transfer.c, which is not linked) the input comes. Its first byte says which
 * call is answered, the second the status, the third how large the pieces are in which the rest comes. */
#include "fuzz.h"

#include "base/buffer.h"
#include "base/text.h"
#include "command/defuse.h"
#include "command/mcp_events.h"
#include "command/mcp_message.h"
#include "husk.h"
#include "library/transfer.h"

static struct input rest;
static size_t piece;
static int status;

/* --- instead of the network --------------------------------------------------------------------- */

int transfer_run(struct husk *husk _unused_, const struct exchange *exchange, struct answer *answer,
                 struct husk_error *error)
{
    int r = 0;
    *error = (struct husk_error){0};
    answer->status = status;
    answer->chunked = true;
    for (size_t at = 0; r == 0 && at < rest.left; at += piece) {
        size_t length = rest.left - at < piece ? rest.left - at : piece;
        if (exchange->sink && status == 200)
            r = exchange->sink(exchange->user, rest.data + at, length, error);
        else if (buffer_append(&answer->body, rest.data + at, length) < 0)
            r = -HUSK_ERROR_MEMORY;
    }
    if (r == -HUSK_ERROR_MEMORY)
        error->kind = HUSK_ERROR_MEMORY;
    return r;
}

static struct husk *client(void)
{
    static struct husk *husk;
    if (!husk) {
        bool *own = &memory_is_our_own;
        if (own)
            *own = true;
        check(husk_new(&(struct husk_options){.url = HUSK_DEFAULT_URL, .api_key = ""}, &husk,
                       NULL) == 0);
        if (own)
            *own = false;
    }
    return husk;
}

/* --- what came ---------------------------------------------------------------------------------- */

static size_t seen;

/* A sanitizer sees whoever does not end it. */
static void look(const char *text)
{
    seen += text ? strlen(text) : 0;
}

static void look_at_bytes(const struct husk_text *text)
{
    check(text->data && text->data[text->length] == '\0');
    for (size_t i = 0; i < text->length; i++)
        seen += (unsigned char)text->data[i];
}

static void look_at_outputs(const struct husk_output *outputs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        look(outputs[i].type);
        look(outputs[i].display_id);
        look_at_bytes(&outputs[i].data);
    }
}

static void look_at_files(const struct husk_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        look(files[i].path);
        look(files[i].type);
        look(files[i].modified_at);
        look(files[i].url);
    }
}

static int on_event(const struct husk_event *event, void *user _unused_)
{
    look_at_bytes(&event->text);
    look_at_outputs(event->outputs, event->output_count);
    if (event->file)
        look_at_files(event->file, 1);
    look(event->error);
    look(event->error_value);
    look(event->traceback);
    look(event->command_id);
    look(event->json);
    return event->index == 666;
}

static void look_at_sandbox(const struct husk_sandbox *sandbox)
{
    look(sandbox->id);
    look(sandbox->name);
    look(sandbox->state);
    look(sandbox->created_at);
    look(sandbox->json);
}

static void look_at_packages(const struct husk_package *packages, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        look(packages[i].name);
        look(packages[i].version);
        look(packages[i].status);
        look(packages[i].error);
    }
}

/* A failure says why, and nothing in it steers a terminal. */
static void look_at_failure(const struct husk_error *error)
{
    check(error->kind != 0 && utf8_valid(error->message, strlen(error->message)));
    check(*error->message || memory_is_short);
    for (const char *c = error->message; *c; c++)
        check((unsigned char)*c >= 0x20 && *c != 0x7f);
    for (const char *c = error->code; *c; c++)
        check((unsigned char)*c >= 0x20 && *c != 0x7f);
}

static int answer_result(struct husk_error *error, bool streaming)
{
    struct husk_result *result = NULL;
    struct husk_code code = {.code = "x"};
    int r = streaming
                ? husk_execute_streaming(client(), "box", &code, on_event, NULL, &result, error)
                : husk_execute(client(), "box", &code, &result, error);
    if (r == 0) {
        look_at_bytes(&result->stdout_text);
        look_at_bytes(&result->stderr_text);
        look_at_outputs(result->outputs, result->output_count);
        look_at_files(result->files, result->file_count);
        look(result->traceback);
        look(result->command_id);
        look(result->status);
        look(result->json);
        husk_result_free(result);
    }
    return r;
}

static int answer_whole(struct husk_error *error)
{
    return answer_result(error, false);
}

static int answer_stream(struct husk_error *error)
{
    return answer_result(error, true);
}

static int answer_install(struct husk_error *error)
{
    struct husk_installed *installed = NULL;
    struct husk_install order = {.requirements = "x"};
    int r = husk_install(client(), "box", &order, on_event, NULL, &installed, error);
    if (r == 0) {
        look_at_packages(installed->packages, installed->count);
        look(installed->output);
        look(installed->error);
        husk_installed_free(installed);
    }
    return r;
}

static int answer_list(struct husk_error *error)
{
    struct husk_sandbox_list *list = NULL;
    int r = husk_list(client(), &list, error);
    for (size_t i = 0; r == 0 && i < list->count; i++)
        look_at_sandbox(list->sandboxes[i]);
    husk_sandbox_list_free(list);
    return r;
}

static int answer_info(struct husk_error *error)
{
    struct husk_sandbox *sandbox = NULL;
    int r = husk_info(client(), "box", &sandbox, error);
    if (r == 0)
        look_at_sandbox(sandbox);
    husk_sandbox_free(sandbox);
    return r;
}

static int answer_health(struct husk_error *error)
{
    struct husk_health *health = NULL;
    int r = husk_health(client(), &health, error);
    if (r == 0) {
        look(health->version);
        look(health->reasons);
    }
    husk_health_free(health);
    return r;
}

static int answer_files(struct husk_error *error)
{
    struct husk_file_list *list = NULL;
    int r = husk_files(client(), "box", NULL, true, &list, error);
    if (r == 0)
        look_at_files(list->files, list->count);
    husk_file_list_free(list);
    return r;
}

static int answer_packages(struct husk_error *error)
{
    struct husk_package_list *list = NULL;
    int r = husk_packages(client(), "box", &list, error);
    if (r == 0)
        look_at_packages(list->packages, list->count);
    husk_package_list_free(list);
    return r;
}

static int answer_commands(struct husk_error *error)
{
    struct husk_process_list *list = NULL;
    int r = husk_commands(client(), "box", &list, error);
    for (size_t i = 0; r == 0 && i < list->count; i++) {
        look(list->processes[i].command_id);
        look(list->processes[i].command);
        look(list->processes[i].status);
    }
    husk_process_list_free(list);
    return r;
}

static int answer_completion(struct husk_error *error)
{
    struct husk_completion *completion = NULL;
    int r = husk_complete(client(), "box", "x", 1, &completion, error);
    for (size_t i = 0; r == 0 && i < completion->match_count; i++)
        look(completion->matches[i]);
    husk_completion_free(completion);
    return r;
}

static int answer_inspection(struct husk_error *error)
{
    struct husk_inspection *inspection = NULL;
    int r = husk_inspect(client(), "box", "x", 1, 0, &inspection, error);
    if (r == 0)
        look_at_bytes(&inspection->text);
    husk_inspection_free(inspection);
    return r;
}

static int answer_detached(struct husk_error *error)
{
    char id[HUSK_ID_SIZE];
    int r = husk_execute_detached(client(), "box", &(struct husk_code){.code = "x"}, id, error);
    if (r == 0)
        check(strlen(id) > 0 && strlen(id) < sizeof id);
    return r;
}

/* --- what goes on ------------------------------------------------------------------------------- */

/* Of sequences only colours and "erase in line" are left, and no other control character but layout. */
static int answer_terminal(struct husk_error *error _unused_)
{
    _cleanup_buffer_ struct buffer out = {0};
    struct defuse defuse = {.one_line = piece % 2};
    for (size_t at = 0; at < rest.left; at += piece)
        defuse_text(&defuse, rest.data + at, rest.left - at < piece ? rest.left - at : piece, &out);
    defuse_end(&defuse, &out);
    check(memory_is_short || !out.length || utf8_valid(out.data, out.length));
    for (size_t i = 0; !memory_is_short && i < out.length; i++) {
        unsigned char byte = (unsigned char)out.data[i];
        bool layout = !defuse.one_line && strchr("\n\r\t\b", byte);
        check((byte >= 0x20 && byte != 0x7f) || layout || byte == 0x1b);
        check(byte != 0xc2 || (unsigned char)out.data[i + 1] >= 0xa0);
        if (byte != 0x1b)
            continue;
        check(i + 1 < out.length && out.data[i + 1] == '[');
        for (i += 2; i < out.length && strchr("0123456789;:", out.data[i]);)
            i++;
        check(i < out.length && (out.data[i] == 'm' || out.data[i] == 'K'));
    }
    return 0;
}

static void on_message(void *user _unused_, const char *data, size_t length)
{
    struct message message;
    message_read(&message, data, length);
    for (int which = 0; message.modern && which < HEADER_COUNT; which++) {
        _cleanup_free_ char *header = message_header(&message, (enum message_header)which);
        for (const char *c = header; c && *c; c++)
            check(*c >= 0x20 && *c < 0x7f);
    }
    _cleanup_free_ char *line = message_error(message.id, ERROR_INTERNAL, "no");
    check(!line || !strchr(line, '\n'));
    message_free(&message);
}

static int answer_events(struct husk_error *error _unused_)
{
    struct events events;
    int r = 0;
    events_init(&events, 4096, on_message, NULL);
    for (size_t at = 0; r == 0 && at < rest.left; at += piece)
        r = events_feed(&events, rest.data + at, rest.left - at < piece ? rest.left - at : piece);
    events_free(&events);
    return 0;
}

/* --- all of it ---------------------------------------------------------------------------------- */

static int (*const calls[])(struct husk_error *error) = {
    answer_whole,      answer_stream,   answer_install,  answer_list,     answer_info,
    answer_health,     answer_files,    answer_packages, answer_commands, answer_completion,
    answer_inspection, answer_detached, answer_terminal, answer_events,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int statuses[] = {200, 202, 404, 302, 500};
    struct husk_error error = {0};
    rest = (struct input){(const char *)data, size};
    /* Letters and digits, so that an input can be written by hand. */
    size_t which = next_byte(&rest) % ARRAY_LENGTH(calls);
    status = statuses[next_byte(&rest) % ARRAY_LENGTH(statuses)];
    piece = next_byte(&rest) + 1;
    (void)client();
    if (calls[which](&error) < 0)
        look_at_failure(&error);
    return 0;
}
