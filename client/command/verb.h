/* What `husk` can do, one verb each. A verb reads its own options, talks to the service through husk.h and returns the exit
 * status of the program (exit_status.h). */
#pragma once

#include <stdbool.h>

struct husk;

/* What was said before the verb, or stands in the environment; the same for all of them. */
struct invocation {
    const char *url;     /* --url; NULL: HUSK_URL or the default */
    const char *api_key; /* NULL: HUSK_API_KEY or none */
    bool json;           /* --json: answers of the service as they are, for scripts */
    bool quiet;          /* --quiet: no progress, no hints */
    bool terminal; /* standard output is one, and --json was not said: tables may have colours */
};

struct verb {
    const char *name;
    const char *arguments; /* for the usage line: "SANDBOX FILE…" */
    const char *summary;   /* one line, for the list of verbs */
    const char *help;      /* what --help says below the usage line: options, examples */
    int (*run)(const struct invocation *invocation, int argc,
               char **argv); /* argv[0] is the verb */
};

/* In the order of the help. The last one has no name. */
extern const struct verb verbs[];

/* repl.c, mcp.c */
int verb_repl(const struct invocation *invocation, int argc, char **argv);
int verb_mcp(const struct invocation *invocation, int argc, char **argv);
extern const char help_repl[], help_mcp[];

/* A client for the service that the invocation means; NULL: that was said on standard error. The caller frees it. */
struct husk *invocation_client(const struct invocation *invocation);
