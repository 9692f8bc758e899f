#include "base/id.h"

#include <errno.h>
#include <string.h>
#include <uuid/uuid.h>

struct id id_new(void)
{
    struct id id;
    uuid_generate_random(id.bytes);
    return id;
}

void id_format(struct id id, char text[ID_TEXT_SIZE])
{
    uuid_unparse_lower(id.bytes, text);
}

int id_parse(const char *text, struct id *ret)
{
    struct id id;
    if (strlen(text) != ID_TEXT_SIZE - 1 || uuid_parse(text, id.bytes) != 0)
        return -EINVAL;
    *ret = id;
    return 0;
}

bool id_equal(struct id a, struct id b)
{
    return memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0;
}

bool id_is_null(struct id id)
{
    return uuid_is_null(id.bytes);
}
