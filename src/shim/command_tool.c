#include "shim/command_tool.h"

#include <errno.h>
#include <string.h>

#include "base/attributes.h"
#include "shim/command_result.h"
#include "shim/tool_content.h"

static int append_stream(const struct command *command, enum text_stream stream, struct buffer *out)
{
    const struct texts *texts = &command->texts;
    return tool_content_stream(&texts->streams[stream], texts->whole[stream], stream, out);
}

/* What to do about it. */
static const char *advice_for(const struct command *command)
{
    if (command->status == EXECUTION_TIMEOUT)
        return "Run it again with a larger timeout_seconds, or do it in smaller steps.";
    if (command->status == EXECUTION_DIED)
        return command->stop == COMMAND_SWEPT
                   ? "Run it again."
                   : "Work on smaller pieces, or create a sandbox with a larger memory_mb.";
    if (command->status == EXECUTION_ERROR && command->end.kind == PROCESS_FAILED)
        return "Correct the command or cwd and run it again.";
    return "";
}

/* How many of a list were not run because one failed. */
static size_t not_run(const struct command *command)
{
    return json_array_size(command->steps) - json_array_size(command->outcomes);
}

static int append_verdict(const struct command *command, struct buffer *out)
{
    _cleanup_buffer_ struct buffer text = {0};
    const char *error = command_error_name(command);
    const char *advice = advice_for(command);
    int code = command_exit_code(&command->end);
    int r = 0;
    if (error)
        r = buffer_printf(&text, "%s: %s", error, command->error_value);
    else if (code != 0)
        r = buffer_printf(&text, "Exit code %d.", code);
    if (r == 0 && command->several && command->status != EXECUTION_OK)
        r = buffer_printf(&text, "%sCommand %zu of %zu ended the list; %zu did not run.",
                          text.length ? " " : "", json_array_size(command->outcomes),
                          json_array_size(command->steps), not_run(command));
    if (r == 0 && *advice)
        r = buffer_printf(&text, "\n\n%s", advice);
    return r == 0 && text.length ? tool_content_text(out, text.data, text.length) : r;
}

/* `out` is empty, so that its length tells whether a comma is due. */
static int append_content(const struct command *command, struct buffer *out)
{
    static const char silent[] = "(no output; exit code 0)";
    const struct command_tool *tool = command->tool;
    int r = append_stream(command, STREAM_STDOUT, out);
    if (r == 0)
        r = append_stream(command, STREAM_STDERR, out);
    if (r == 0)
        r = append_verdict(command, out);
    if (r == 0 && out->length == 0)
        r = tool_content_text(out, silent, strlen(silent));
    if (r == 0)
        r = tool_content_files(tool->sandbox, tool->links, command->files, out);
    return r == 0 && tool->note ? tool_content_text(out, tool->note, strlen(tool->note)) : r;
}

/* An error is something that the model can do something about. Who was killed was killed on purpose. */
int command_tool_append(const struct command *command, struct buffer *out)
{
    bool is_error = command->status != EXECUTION_OK && command->status != EXECUTION_INTERRUPTED;
    _cleanup_buffer_ struct buffer content = BUFFER_LIMITED(MAX_ANSWER_BYTES);
    int r = append_content(command, &content);
    if (r == 0)
        r = buffer_append_text(out, "\"content\":[");
    if (r == 0)
        r = buffer_append(out, content.data, content.length);
    if (r == 0)
        r = buffer_append_text(out, "],\"structuredContent\":");
    if (r == 0)
        r = command_result_append(command, out);
    return r == 0 ? buffer_append_text(out, is_error ? ",\"isError\":true" : ",\"isError\":false")
                  : r;
}
