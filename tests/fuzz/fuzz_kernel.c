/* What a kernel sends. The first byte: 1, the parts are as they come; else they are signed for it, so that all that stands behind
 * the signature is reached. Each part is a line. A message that is taken in goes on to where its output would be rendered. */
#include "fuzz.h"

#include "husk/limits.h"
#include "shim/answer.h"
#include "shim/outputs.h"
#include "wire/message.h"

enum {
    MOST_PARTS = MAX_WIRE_FRAMES + 2
};

static void render(const struct message *message)
{
    struct answer *answer = answer_new();
    struct outputs *outputs = outputs_new(answer_recorder(answer), false);
    outputs_add(outputs, message->type, message->content);
    outputs_add(outputs, message->type, message->content);
    outputs_reply(outputs, message->content);
    outputs_close(outputs);
    _cleanup_buffer_ struct buffer text = BUFFER_LIMITED(MAX_ANSWER_BYTES);
    const struct verdict verdict = {.status = EXECUTION_ERROR};
    const struct answer_frame frame = {.outputs = outputs, .verdict = &verdict};
    if (answer_render(answer, &frame, &text) == 0 && !memory_is_short) {
        json_auto_t *read = json_loadb(text.data, text.length, JSON_ALLOW_NUL, NULL);
        check(json_is_object(read));
    }
    (void)outputs_free(outputs);
    (void)answer_free(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {(const char *)data, size};
    static struct signatures keyed;
    char signature[SIGNATURE_TEXT_SIZE];
    char *lines[MOST_PARTS];
    struct part parts[MOST_PARTS + 2];
    size_t count = 0, taken = 0;
    signatures_init(&keyed, "key", 3);
    bool raw = next_byte(&input) == 1;
    while (input.left && taken < MOST_PARTS) {
        lines[taken] = next_line(&input);
        parts[taken + 2] = (struct part){lines[taken], strlen(lines[taken])};
        taken++;
    }
    struct part *first = parts + 2;
    count = taken;
    if (!raw && taken >= SIGNED_PARTS) {
        signature_make(&keyed, parts + 2, signature);
        parts[0] = PART_LITERAL("<IDS|MSG>");
        parts[1] = (struct part){signature, strlen(signature)};
        first = parts;
        count = taken + 2;
    }
    struct message message = {0};
    struct failure why;
    if (message_parse(first, count, &keyed, &message, &why) == 0) {
        check(message.type && message.parent_id);
        render(&message);
    }
    message_free(&message);
    for (size_t i = 0; i < taken; i++)
        free(lines[i]);
    return 0;
}
