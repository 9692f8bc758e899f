/* The tools that models call. A tool is a line in a table: its definition as models see it, and what it does. Arguments that
 * are not as they must be, and everything else that a model could mend, give a result that says so (`isError`); only the
 * name of a tool that does not exist is an error of the protocol. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/attributes.h"
#include "husk/limits.h"
#include "husk/shim_protocol.h"
#include "mcp/call.h"

struct problem;
struct service;

struct mcp_tool {
    const char *name;
    const char *definition; /* JSON: title, description, inputSchema, outputSchema, annotations */
    /* `arguments` is an object with members that the inputSchema has; borrowed until call_drop_params(). */
    void (*run)(struct mcp_call *call, json_t *arguments);
    const char *needs; /* a capability of the client, NULL: none */
    const char
        *local; /* what to do here in place of local_path, which `husk mcp` has; NULL: nothing */
};

enum {
    TOOL_NOTE_SIZE = 200
};

/* JSON as it is, as a string of C. */
#define JSON(...) #__VA_ARGS__

/* All of them, as of the catalog. */
struct tool_table;
struct tool_table *tool_table_new(void);
struct tool_table *tool_table_free(struct tool_table *table); /* NULL ok, returns NULL */

/* Methods. */
void tools_list(struct mcp_call *call);
void tools_call(struct mcp_call *call);

/* --- for the tools ---------------------------------------------------------------------------- */

/* The result: a text for the model, and the same for programs (stolen; NULL: none). */
void tool_answer(struct mcp_call *call, json_t *structured, const char *format, ...) _printf_(3, 4);
/* The same with a text that is there already; `is_error`: it did not work. */
void tool_result(struct mcp_call *call, json_t *structured, bool is_error, const char *text);
/* It did not work, and this is what to do about it. */
void tool_fail(struct mcp_call *call, const char *format, ...) _printf_(2, 3);
void tool_fail_problem(struct mcp_call *call, const struct problem *problem);

/* The sandbox that `sandbox_id` names, or the only one of this session: into call->sandbox. False: there is none, and that is
 * answered; or, with `ret_none`, it was not named and there is none yet. */
bool tool_find_sandbox(struct mcp_call *call, const json_t *arguments, bool *ret_none);

/* The same, and if there is none yet one is made; then `then` is called, at once or later. */
void tool_with_sandbox(struct mcp_call *call, const json_t *arguments,
                       void (*then)(struct mcp_call *call));

/* "mcp" of SHIM_EXECUTE and SHIM_COMMAND (husk/shim_protocol.h); new reference. */
json_t *tool_order(const struct mcp_call *call);
/* Send it such a message; what it says is the result. `timeout`: seconds that it may take. */
void tool_run_in_shim(struct mcp_call *call, enum shim_type type, const char *message,
                      double timeout);

/* The path `key` of a file or folder below /home/user, plain (huskd/file_path.h); "" is that folder itself and stands for a missing
 * one, too. False: that is answered. */
bool tool_read_path(struct mcp_call *call, const json_t *arguments, const char *key,
                    char path[MAX_FILE_PATH_BYTES + 1]);
/* The sandbox may have ended while somebody else was asked: false, and that is answered. */
bool tool_sandbox_lives(struct mcp_call *call);

/* Appended to an answer's text: " This is in a new sandbox, …" if one was made for this call, else "". */
const char *tool_note(const struct mcp_call *call, char note[TOOL_NOTE_SIZE]);

struct install_order;
struct install_result;
typedef void (*tool_installed)(struct mcp_call *call, const struct install_result *result);
/* Install packages into call->sandbox and tell of the progress; `done` answers. `cancel` calls tool_stop_install(). False: it is
 * refused, see *problem. */
bool tool_install(struct mcp_call *call, const struct install_order *order,
                  void (*cancel)(struct mcp_call *call), tool_installed done,
                  struct problem *problem);
void tool_stop_install(struct mcp_call *call);

/* sandbox_tools.c, execute_tool.c, terminal_tool.c, package_tools.c, folder_tools.c, read_tools.c, write_tools.c */
extern const struct mcp_tool tool_create_sandbox, tool_list_sandboxes, tool_close_sandbox,
    tool_extend_sandbox, tool_execute, tool_interrupt, tool_restart, tool_command,
    tool_install_packages, tool_check_package, tool_list_files, tool_delete_file, tool_read_file,
    tool_download_file, tool_write_file, tool_upload_file, tool_copy_project;
