#include "keeper/keeper_request.h"

#include <string.h>

static bool has_path(uint32_t type)
{
    return type == KEEPER_OPEN || type == KEEPER_PLACE || type == KEEPER_PORT;
}

bool keeper_request_check(struct keeper_request *request, size_t length)
{
    struct keeper_message *message = &request->message;
    if (length < sizeof *message || length - sizeof *message != message->path_bytes ||
        message->path_bytes > MAX_FILE_PATH_BYTES ||
        (message->path_bytes && !has_path(message->type)))
        return false;
    message->text[sizeof message->text - 1] = '\0';
    request->path[message->path_bytes] = '\0';
    return strlen(request->path) == message->path_bytes;
}
