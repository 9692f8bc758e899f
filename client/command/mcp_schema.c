#include "command/mcp_schema.h"

#include <string.h>

#include "base/attributes.h"

/* JSON as it is, as a string of C. */
#define JSON(...) #__VA_ARGS__

struct addition {
    const char *tool;
    const char *replaced;    /* an argument that need not be given any more; NULL: none */
    const char *description; /* appended to the tool's */
    const char *properties;  /* of its arguments */
    const char *annotations; /* in place of those of the same names */
};

/* clang-format off */
static const struct addition additions[] = {
    {.tool = "upload_file",
     .replaced = "data",
     .description = " Instead of data, local_path names a file on the user's machine, of at most 1 GiB: prefer that for files that exist there.",
     .properties = JSON({
         "local_path": {"type": "string", "description": "A file on the user's machine, absolute or relative to the folder in which this server was started; it is read there, so its bytes need not be in the call. Only files in folders that the user has opened."}
     }),
     .annotations = "{}"},
    {.tool = "download_file",
     .description = " With local_path it is written to the user's machine instead, up to 1 GiB, and not returned: prefer that when the user wants the file.",
     .properties = JSON({
         "local_path": {"type": "string", "description": "Where to write it on the user's machine: a file, or a folder to keep its name. Absolute or relative to the folder in which this server was started; missing folders are made. Only in folders that the user has opened."},
         "overwrite": {"type": "boolean", "default": false, "description": "With local_path: replace a file that exists there. Ask the user first."}
     }),
     .annotations = JSON({"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false})},
    {.tool = "copy_project",
     .replaced = "archive",
     .description = " Instead of archive, local_path names a folder on the user's machine: what is in it is copied. .git, node_modules, __pycache__, .venv and caches of tools are left out.",
     .properties = JSON({
         "local_path": {"type": "string", "description": "A folder on the user's machine, or an archive that lies there, absolute or relative to the folder in which this server was started. Only in folders that the user has opened."},
         "include_ignored": {"type": "boolean", "default": false, "description": "With local_path: copy .git, node_modules and the like, too."}
     }),
     .annotations = "{}"},
};
/* clang-format on */

static void drop_required(json_t *schema, const char *name)
{
    json_t *required = json_object_get(schema, "required");
    for (size_t i = json_array_size(required); name && i-- > 0;) {
        const char *at = json_string_value(json_array_get(required, i));
        if (at && strcmp(at, name) == 0)
            (void)json_array_remove(required, i);
    }
    if (required && json_array_size(required) == 0)
        (void)json_object_del(schema, "required");
}

static void extend(json_t *tool, const struct addition *addition)
{
    json_t *schema = json_object_get(tool, "inputSchema");
    const char *description = json_string_value(json_object_get(tool, "description"));
    json_auto_t *properties = json_loads(addition->properties, 0, NULL);
    json_auto_t *annotations = json_loads(addition->annotations, 0, NULL);
    (void)json_object_update(json_object_get(schema, "properties"), properties);
    (void)json_object_update(json_object_get(tool, "annotations"), annotations);
    drop_required(schema, addition->replaced);
    (void)json_object_set_new(
        tool, "description",
        json_sprintf("%s%s", description ? description : "", addition->description));
    (void)json_object_set_new(json_object_get(json_object_get(tool, "outputSchema"), "properties"),
                              "local_path", json_pack("{s:s}", "type", "string"));
}

void schema_add_local(json_t *tools)
{
    size_t i;
    json_t *tool;
    json_array_foreach(tools, i, tool)
    {
        const char *name = json_string_value(json_object_get(tool, "name"));
        for (size_t j = 0; name && j < ARRAY_LENGTH(additions); j++) {
            if (strcmp(name, additions[j].tool) == 0)
                extend(tool, &additions[j]);
        }
    }
}
