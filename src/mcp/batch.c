#include "mcp/batch.h"

#include <stdlib.h>

#include "base/memory.h"
#include "husk/limits.h"
#include "mcp/call.h"

struct batch {
    struct mcp_call *carrier;
    struct buffer messages; /* joined by commas */
    size_t open;            /* answers that are to come */
    bool closed;
};

static void batch_free(struct batch *batch)
{
    buffer_free(&batch->messages);
    free(batch);
}

static void finish_if_done(struct batch *batch)
{
    if (batch->open > 0 || !batch->closed || batch->messages.length == 0)
        return;
    struct mcp_call *carrier = batch->carrier;
    struct buffer list = batch->messages;
    batch->messages = (struct buffer){0};
    batch_free(batch);
    call_answer_list(carrier, &list);
    buffer_free(&list);
}

static void take_reply(void *user, const struct mcp_reply *reply)
{
    struct batch *batch = user;
    const char *separator = batch->messages.length ? "," : "";
    batch->open--;
    if (reply->message && buffer_append_text(&batch->messages, separator) == 0)
        (void)buffer_append(&batch->messages, reply->message->data, reply->message->length);
    if (!reply->message && batch->open == 0 && batch->messages.length == 0 && batch->closed)
        (void)buffer_append_text(&batch->messages, " "); /* all were cancelled: an empty list */
    finish_if_done(batch);
}

/* They are held until the last one is there. */
static const char *refuses(void *user, size_t length)
{
    const struct batch *batch = user;
    return batch->messages.length + length <= MAX_MCP_BATCH_BYTES
               ? NULL
               : "The answers of this batch are too large together. Try again with one request at "
                 "a time.";
}

static const struct mcp_outlet outlet = {.reply = take_reply, .refuses = refuses};

static void cancel(struct mcp_call *carrier)
{
    struct batch *batch = carrier->batch;
    struct mcp_call *next;
    for (struct mcp_call *call = carrier->mcp->calls; call; call = next) {
        next = call->next;
        if (call->user == batch && call->outlet == &outlet)
            call_cancel(call);
    }
    batch_free(batch);
}

struct batch *batch_new(struct mcp_call *carrier)
{
    struct batch *batch = must_alloc(sizeof *batch);
    batch->carrier = carrier;
    carrier->batch = batch;
    return batch;
}

void batch_enter(struct batch *batch, struct mcp_input *input)
{
    batch->open++;
    input->outlet = &outlet;
    input->user = batch;
}

void batch_skip(struct batch *batch)
{
    batch->open--;
}

bool batch_close(struct batch *batch)
{
    bool answers = batch->open > 0 || batch->messages.length > 0;
    batch->closed = true;
    if (!answers)
        batch_free(batch);
    else if (batch->open > 0)
        call_wait(batch->carrier, cancel);
    else
        finish_if_done(batch);
    return answers;
}
