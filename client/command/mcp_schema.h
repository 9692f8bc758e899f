/* What the tools for files take here in addition to what huskd says: files of this machine. */
#pragma once

#include <jansson.h>

/* `tools`: the list in the answer to tools/list, changed in place. What is not as expected stays as it is. */
void schema_add_local(json_t *tools);
