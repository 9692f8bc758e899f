#include "shim/input.h"

#include <errno.h>

#include "base/text.h"
#include "husk/limits.h"

/* What the protocol has for the end of input. */
#define END_OF_INPUT "\x04"

void input_init(struct input *input, enum input_mode mode, json_t *lines)
{
    *input = (struct input){.mode = mode, .lines = json_incref(lines)};
}

static void forget_request(struct input *input)
{
    json_decref(input->request);
    json_decref(input->prompt);
    input->request = NULL;
    input->prompt = NULL;
    input->told = false;
}

void input_free(struct input *input)
{
    forget_request(input);
    json_decref(input->lines);
    input->lines = NULL;
}

const char *input_mode_name(const struct input *input)
{
    static const char *const names[] = {
        [INPUT_NONE] = "none", [INPUT_GIVEN] = "given", [INPUT_ASK] = "ask"};
    return names[input->mode];
}

static int reply(struct input *input, json_t *value, struct kernel *kernel)
{
    json_auto_t *content = json_pack("{s:s, s:O}", "status", "ok", "value", value);
    struct message_body body = {
        .type = "input_reply", .content = content, .parent = input->request};
    uint64_t number;
    int r = content ? kernel_send(kernel, CHANNEL_STDIN, &body, &number) : -ENOMEM;
    forget_request(input);
    return r;
}

/* A reply that cannot be sent leaves the code waiting, until its time is over. */
static void serve(struct input *input, struct kernel *kernel, struct event_stream *stream)
{
    if (!input->noted || !input->request || input->told)
        return;
    input->noted = false;
    if (input->mode == INPUT_GIVEN) {
        json_t *line = json_array_get(input->lines, input->next_line);
        json_auto_t *value = line ? json_incref(line) : json_string(END_OF_INPUT);
        input->next_line += line != NULL;
        (void)reply(input, value, kernel);
    } else if (stream) {
        input->told = true;
        event_stream_put(
            stream, "input_request",
            json_pack("{s:O, s:b}", "prompt", input->prompt, "password", input->password));
    }
}

void input_note(struct input *input, struct kernel *kernel, struct event_stream *stream)
{
    /* If the caller was told already, this is for the next request, as the code was interrupted; or it comes late, and must not
     * take back what the caller was told. */
    input->noted = true;
    serve(input, kernel, stream);
}

void input_request(struct input *input, const struct message *message, struct kernel *kernel,
                   struct event_stream *stream)
{
    if (input->mode == INPUT_NONE)
        return;
    const json_t *prompt = json_object_get(message->content, "prompt");
    const char *text = json_string_value(prompt);
    forget_request(input);
    input->request = json_incref(message->header);
    input->prompt = json_stringn(
        text ? text : "", text ? utf8_cut(text, json_string_length(prompt), MAX_PROMPT_BYTES) : 0);
    input->password = json_is_true(json_object_get(message->content, "password"));
    serve(input, kernel, stream);
}

int input_answer(struct input *input, json_t *value, struct kernel *kernel)
{
    if (!input->told)
        return -ENOENT;
    json_auto_t *text = value ? json_incref(value) : json_string(END_OF_INPUT);
    return reply(input, text, kernel);
}
