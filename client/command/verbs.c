#include "command/verbs.h"

#include <stddef.h>

#define VERB(name, arguments, summary)                                                             \
    {                                                                                              \
#name, arguments, summary, help_##name, verb_##name                                        \
    }

const struct verb verbs[] = {
    VERB(run, "[OPTIONS] [FILE [ARGUMENT…]]", "run a program in a new sandbox, and close it"),
    VERB(create, "[OPTIONS]", "make a sandbox; prints its id"),
    VERB(ls, "[OPTIONS]", "list the sandboxes"),
    VERB(info, "SANDBOX", "what a sandbox is and uses"),
    VERB(repl, "[OPTIONS] [SANDBOX]", "a prompt in a sandbox"),
    VERB(exec, "SANDBOX [OPTIONS] [FILE [ARGUMENT…]]", "run code in a sandbox"),
    VERB(sh, "SANDBOX [OPTIONS] COMMAND…", "run a command in a sandbox"),
    VERB(install, "SANDBOX [OPTIONS] PACKAGE…", "install Python packages"),
    VERB(packages, "SANDBOX [PACKAGE]", "what is installed"),
    VERB(put, "SANDBOX [OPTIONS] PATH…", "send files and folders to a sandbox"),
    VERB(get, "SANDBOX [OPTIONS] PATH…", "fetch files and folders from a sandbox"),
    VERB(files, "SANDBOX [OPTIONS] [FOLDER]", "list the files of a sandbox"),
    VERB(rm, "SANDBOX PATH…", "remove files and folders of a sandbox"),
    VERB(extend, "SANDBOX TIME", "let a sandbox live longer"),
    VERB(interrupt, "SANDBOX", "stop the code that runs, keep the variables"),
    VERB(restart, "SANDBOX", "start Python afresh, keep the files"),
    VERB(close, "[OPTIONS] SANDBOX…", "end sandboxes"),
    VERB(health, "", "how the service is"),
    VERB(mcp, "[OPTIONS] [-- ARGUMENT…]", "an MCP server on stdin and stdout, for editors"),
    {},
};
