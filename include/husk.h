/* libhusk: Husk's sandboxes from C.
 *
 *     struct husk_error error;
 *     struct husk *husk;
 *     struct husk_sandbox *sandbox;
 *     struct husk_result *result;
 *     if (husk_new(NULL, &husk, &error) < 0 || husk_create(husk, NULL, &sandbox, &error) < 0 ||
 *         husk_execute(husk, sandbox->id, &(struct husk_code){.code = "6 * 7"}, &result, &error) < 0)
 *         errx(1, "%s", error.message);
 *
 * Compile with `pkg-config --cflags --libs husk`. client/examples has whole programs.
 *
 * Results. Every function that can fail returns 0, or a negative number: minus one of enum husk_error_kind. What it gives back
 * through `ret` is set only when it returned 0. `error` may be NULL; it is the caller's, what it holds counts only on failure, and it owns nothing.
 * A Python exception or an exit code is no failure: the call worked, and the result tells of it.
 *
 * Memory. What is given back is the caller's and has a function of its own that frees it (NULL is fine); everything that it
 * points to lives as long as it. What is passed in is copied or used before the call returns.
 *
 * Threads. A client is for one thread at a time; several clients are independent of each other. Only husk_cancel() may be called from
 * any thread, and from signal handlers. While a callback runs its client is in use: a callback that wants to call Husk (to
 * answer input(), say) uses another one, made with husk_clone().
 *
 * Sandboxes are named by their id or their name. All text is UTF-8. Zero, NULL and false stand for the service's default. Structures may
 * grow at their end in a new version, with a new soname: initialise them with { } or designated initialisers. A NUL in what the service says
 * is kept in a struct husk_text; in a plain string it becomes U+FFFD.
 *
 * Retries. Calls that only read (also husk_complete() and its like; not husk_health(), which tells how things are now) are repeated up to
 * HUSK_RETRIES times when the service says 503 or cannot be reached, after the time it asks for, at most 5 seconds, or a tenth of a
 * second, then twice that, and so on. Nothing that may have run is ever sent twice: a connection that is kept from an earlier call is looked at before it is used
 * again, and if it breaks later, that is HUSK_ERROR_BROKEN.
 *
 * Times. A call ends with HUSK_ERROR_TIMEOUT when nothing came or went for timeout_seconds while something was expected; time spent in
 * callbacks does not count. Streams are never silent for more than 10 seconds, so that is how a service that hangs is noticed. A call that is answered when
 * something has been done waits longer if need be: code and commands for their own `timeout` and 30 seconds more (if that is 0 only the service knows,
 * and the wait is a day); create, close, interrupt and restart 2 minutes; what is about folders and archives 5.
 */
#ifndef HUSK_H
#define HUSK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HUSK_API __attribute__((visibility("default")))

#define HUSK_DEFAULT_URL "http://127.0.0.1:8000"

enum {
    HUSK_RETRIES = 3
};

/* --- errors -------------------------------------------------------------------------------------- */

enum husk_error_kind {
    HUSK_ERROR_ARGUMENT = 1, /* what the caller passed makes no sense; nothing was sent */
    HUSK_ERROR_MEMORY,
    HUSK_ERROR_CONNECT, /* the service cannot be reached; nothing was sent */
    HUSK_ERROR_BROKEN, /* the connection ended before the answer did: it may have happened, or not */
    HUSK_ERROR_TIMEOUT,   /* the client's own patience is over (husk_options.timeout_seconds) */
    HUSK_ERROR_CANCELLED, /* by husk_cancel(), or because a callback said so */
    HUSK_ERROR_REFUSED,   /* the service said no: http_status, code and message tell why */
    HUSK_ERROR_ANSWER, /* the answer is not what Husk answers: something else listens there, or it is damaged */
    HUSK_ERROR_FILE /* a file of this machine cannot be read or written */
};

struct husk_error {
    enum husk_error_kind kind;
    int http_status;   /* 0: there was no answer */
    int retry_after;   /* seconds that the service asks to wait (429, 503); 0: it does not say */
    char code[64];     /* of the problem, stable: "sandbox_not_found"; "" if there is none */
    char message[512]; /* a sentence for people, that says what to do; no control characters */
};

/* "connect", "refused", …: never NULL. */
HUSK_API const char *husk_error_name(enum husk_error_kind kind);

/* The version of this library: "0.1.0". */
HUSK_API const char *husk_version(void);

/* --- clients ------------------------------------------------------------------------------------- */

struct husk;

struct husk_options {
    const char *
        url; /* NULL: of HUSK_URL, else HUSK_DEFAULT_URL. http:// or https://; a path in it is kept as prefix; no name or key in it */
    const char *api_key;            /* NULL: of HUSK_API_KEY, else none. "": none */
    const char *ca_file;            /* certificates to trust with https; NULL: the system's */
    double connect_timeout_seconds; /* 10 */
    double timeout_seconds;         /* of silence, see "Times" above. 30 */
    const char *user_agent;         /* NULL: "libhusk/…" */
};

/* A client. Nothing is sent yet. `options` may be NULL. Redirections are never followed: a key must not travel elsewhere. Proxies of the
 * environment (http_proxy, …) are used, but never for this machine itself. */
HUSK_API int husk_new(const struct husk_options *options, struct husk **ret,
                      struct husk_error *error);
/* Another one with the same options, for another thread or for use in a callback. */
HUSK_API int husk_clone(const struct husk *husk, struct husk **ret, struct husk_error *error);
HUSK_API struct husk *husk_free(struct husk *husk); /* NULL ok, returns NULL */
/* Where it calls: without a slash at the end. Borrowed. */
HUSK_API const char *husk_url(const struct husk *husk);

/* End the call that is under way with HUSK_ERROR_CANCELLED, at once, also one that waits in silence; if there is none, the next one. The service
 * notices that its caller is gone: what ran is interrupted. Any thread, any signal handler. A callback that runs is not interrupted: the call ends when it
 * returns. */
HUSK_API void husk_cancel(struct husk *husk);

/* How far an upload or download has come; total 0: not known. Not 0 from it cancels. Called at most some times a second, and at the end of one that
 * went well. NULL: none. */
typedef int (*husk_progress)(uint64_t done, uint64_t total, void *user);
HUSK_API void husk_on_progress(struct husk *husk, husk_progress progress, void *user);

/* --- texts --------------------------------------------------------------------------------------- */

/* Bytes that may hold NUL; there is one more after them in any case. data is never NULL. */
struct husk_text {
    const char *data;
    size_t length;
};

struct husk_variable { /* of the environment */
    const char *name, *value;
};

/* --- sandboxes ----------------------------------------------------------------------------------- */

struct husk_create {
    const char *name; /* NULL: none */
    uint64_t ttl_seconds, idle_seconds;
    uint64_t memory_mb, pids, disk_mb;
    double cpus;
    const struct husk_variable *variables;
    size_t variable_count;
    const char *const *packages; /* installed before it answers */
    size_t package_count;
    bool auto_install; /* missing modules are installed before each execution */
};

struct husk_sandbox {
    const char *id;
    const char *name;  /* "": none */
    const char *state; /* "ready", "busy", "restarting", "dead" */
    const char *created_at, *expires_at;
    uint64_t idle_seconds;
    uint64_t memory_mb, pids, disk_mb; /* limits */
    double cpus;
    bool has_usage; /* the next four are known */
    uint64_t memory_bytes, used_pids, disk_bytes;
    double cpu_seconds;
    uint64_t execution_count, queued, commands;
    const char *json; /* all that the service said */
};

struct husk_sandbox_list {
    struct husk_sandbox *const
        *sandboxes; /* oldest first, by the second; they belong to the list */
    size_t count;
    const char *json;
};

/* Make one; `wanted` may be NULL. */
HUSK_API int husk_create(struct husk *husk, const struct husk_create *wanted,
                         struct husk_sandbox **ret, struct husk_error *error);
HUSK_API int husk_info(struct husk *husk, const char *sandbox, struct husk_sandbox **ret,
                       struct husk_error *error);
HUSK_API struct husk_sandbox *husk_sandbox_free(struct husk_sandbox *sandbox);
HUSK_API int husk_list(struct husk *husk, struct husk_sandbox_list **ret, struct husk_error *error);
HUSK_API struct husk_sandbox_list *husk_sandbox_list_free(struct husk_sandbox_list *list);
/* Let it live for so many seconds from now. */
HUSK_API int husk_extend(struct husk *husk, const char *sandbox, uint64_t ttl_seconds,
                         struct husk_error *error);
/* End it; returns when nothing of it is left. */
HUSK_API int husk_close(struct husk *husk, const char *sandbox, struct husk_error *error);

struct husk_health {
    bool healthy;
    const char *version;
    uint64_t uptime_seconds;
    uint64_t live, warm, creating, maximum; /* sandboxes */
    const char *reasons;                    /* why it is not healthy, one a line; "": it is */
    const char *json;
};

/* Also when it is not healthy (503) this returns 0. Needs no key. Never repeated. */
HUSK_API int husk_health(struct husk *husk, struct husk_health **ret, struct husk_error *error);
HUSK_API struct husk_health *husk_health_free(struct husk_health *health);

/* --- code ---------------------------------------------------------------------------------------- */

struct husk_code {
    const char *code;
    size_t length;          /* of the code; 0: up to its NUL */
    double timeout;         /* seconds, queueing included */
    const char *stdin_text; /* answers input(); NULL: input() raises */
    bool ask; /* streaming only: input() asks by HUSK_EVENT_INPUT, husk_input() answers */
    const struct husk_variable *variables; /* for this execution */
    size_t variable_count;
    bool colors; /* of the traceback */
    bool auto_install;
};

/* One form of one output: a figure comes as "image/png" and as "text/plain", both with the same `output`. */
struct husk_output {
    const char *type;       /* "image/png" */
    struct husk_text data;  /* as it is: pictures as bytes, JSON as its text */
    uint64_t output;        /* number of the display */
    bool main;              /* what the last expression returned */
    const char *display_id; /* "": none */
    bool update;            /* of a display of an earlier execution */
};

struct husk_file {    /* that was created or changed, or that a folder has */
    const char *path; /* relative to the working directory */
    uint64_t size;
    const char *type;        /* MIME type; "inode/directory" for a folder */
    const char *modified_at; /* of a listing; "": not told */
    const char *change;      /* of an execution or command: "created", "modified"; "": not told */
    const char
        *url; /* of an execution or command: a signed link, relative to husk_url(); "": not told */
};

struct husk_result { /* of code and of commands */
    struct husk_text stdout_text, stderr_text;
    const char *error; /* "ZeroDivisionError", "TimeoutError", "KernelDied", …; NULL: none */
    const char *error_value; /* NULL: none */
    const char *traceback;   /* NULL: none */
    const struct husk_output *outputs;
    size_t output_count;
    const struct husk_file *files;
    size_t file_count;
    const char *
        status; /* "ok", "error", "timeout", "interrupted", "died"; of detached ones "queued", "running" too */
    bool state_lost; /* variables are gone */
    bool truncated;  /* some output is missing */
    uint64_t execution_count;
    double duration_ms;
    int exit_code;          /* commands only; -1: it runs */
    const char *signal;     /* commands only: "SIGKILL"; NULL: none */
    const char *command_id; /* commands only; "" else */
    const char *json;       /* all that the service said; of a stream its last event */
};
HUSK_API struct husk_result *husk_result_free(struct husk_result *result);

enum husk_event_kind {
    HUSK_EVENT_START,
    HUSK_EVENT_QUEUED,   /* so many others (index) come first */
    HUSK_EVENT_STDOUT,   /* text */
    HUSK_EVENT_STDERR,   /* text */
    HUSK_EVENT_RESULT,   /* outputs: all forms of one */
    HUSK_EVENT_UPDATE,   /* outputs: they replace those with the same number, or display_id */
    HUSK_EVENT_CLEAR,    /* all output so far is void (clear_output) */
    HUSK_EVENT_ERROR,    /* error, error_value, traceback */
    HUSK_EVENT_INPUT,    /* text is the prompt; `password`: do not echo. Answer with husk_input() */
    HUSK_EVENT_FILE,     /* file */
    HUSK_EVENT_COMMAND,  /* the next of several commands begins: index */
    HUSK_EVENT_PROGRESS, /* of an install: text is a line */
    HUSK_EVENT_DROPPED,  /* this reader was too slow: so many events (index) are missing */
    HUSK_EVENT_OTHER     /* one that this version does not know: see json */
};

struct husk_event { /* borrowed: good while the callback runs */
    enum husk_event_kind kind;
    struct husk_text text;
    bool password;
    const struct husk_output *outputs;
    size_t output_count;
    const struct husk_file *file;
    const char *error, *error_value, *traceback;
    const char *command_id; /* of HUSK_EVENT_START of a command; "" else */
    uint64_t index;
    const char *json;
};
/* Not 0: stop, as husk_cancel() does. */
typedef int (*husk_on_event)(const struct husk_event *event, void *user);

/* Run code and wait for its result. */
HUSK_API int husk_execute(struct husk *husk, const char *sandbox, const struct husk_code *code,
                          struct husk_result **ret, struct husk_error *error);
/* The same, and `on_event` is called with each piece of output as it comes. *ret has the summary: no output, no files, but all else. */
HUSK_API int husk_execute_streaming(struct husk *husk, const char *sandbox,
                                    const struct husk_code *code, husk_on_event on_event,
                                    void *user, struct husk_result **ret, struct husk_error *error);

enum {
    HUSK_ID_SIZE = 37 /* of a text with its NUL */
};

/* Start it and do not wait; husk_execution() has the result, or what there is so far. */
HUSK_API int husk_execute_detached(struct husk *husk, const char *sandbox,
                                   const struct husk_code *code, char execution_id[HUSK_ID_SIZE],
                                   struct husk_error *error);
HUSK_API int husk_execution(struct husk *husk, const char *sandbox, const char *execution_id,
                            struct husk_result **ret, struct husk_error *error);

/* The answer to HUSK_EVENT_INPUT; NULL: the end of input. */
HUSK_API int husk_input(struct husk *husk, const char *sandbox, const char *value,
                        struct husk_error *error);
/* Stop what runs, keep the variables; returns when it has stopped. */
HUSK_API int husk_interrupt(struct husk *husk, const char *sandbox, struct husk_error *error);
/* A fresh kernel; files stay. */
HUSK_API int husk_restart(struct husk *husk, const char *sandbox, struct husk_error *error);

/* --- for prompts: while something runs these are refused with code "sandbox_busy" ------------------ */

struct husk_completion {
    const char *const *matches;
    size_t match_count;
    size_t start, end; /* the part of the code that a match replaces, in Unicode characters */
    const char *json;
};
struct husk_inspection {
    bool found;
    struct husk_text text;
    const char *json;
};
struct husk_completeness {
    const char *status; /* "complete", "incomplete", "invalid", "unknown" */
    const char *indent; /* for the next line, if incomplete; "" */
    const char *json;
};

/* `cursor`: in Unicode characters. */
HUSK_API int husk_complete(struct husk *husk, const char *sandbox, const char *code, size_t cursor,
                           struct husk_completion **ret, struct husk_error *error);
HUSK_API struct husk_completion *husk_completion_free(struct husk_completion *completion);
/* `detail` 0: signature and documentation; 1: source, too. */
HUSK_API int husk_inspect(struct husk *husk, const char *sandbox, const char *code, size_t cursor,
                          int detail, struct husk_inspection **ret, struct husk_error *error);
HUSK_API struct husk_inspection *husk_inspection_free(struct husk_inspection *inspection);
/* Is this a whole cell, or does it want more lines? */
HUSK_API int husk_is_complete(struct husk *husk, const char *sandbox, const char *code,
                              struct husk_completeness **ret, struct husk_error *error);
HUSK_API struct husk_completeness *husk_completeness_free(struct husk_completeness *completeness);

/* --- commands ------------------------------------------------------------------------------------ */

struct husk_command {
    const char *command;          /* for a shell; or … */
    const char *const *arguments; /* … a program and its arguments, executed as they are */
    size_t argument_count;
    double timeout;
    const char *cwd;
    const char *stdin_text;
    const struct husk_variable *variables;
    size_t variable_count;
};

HUSK_API int husk_command(struct husk *husk, const char *sandbox,
                          const struct husk_command *command, struct husk_result **ret,
                          struct husk_error *error);
HUSK_API int husk_command_streaming(struct husk *husk, const char *sandbox,
                                    const struct husk_command *command, husk_on_event on_event,
                                    void *user, struct husk_result **ret, struct husk_error *error);
HUSK_API int husk_command_detached(struct husk *husk, const char *sandbox,
                                   const struct husk_command *command,
                                   char command_id[HUSK_ID_SIZE], struct husk_error *error);
/* Of a detached one: its result, or what there is so far. */
HUSK_API int husk_command_result(struct husk *husk, const char *sandbox, const char *command_id,
                                 struct husk_result **ret, struct husk_error *error);
HUSK_API int husk_command_kill(struct husk *husk, const char *sandbox, const char *command_id,
                               struct husk_error *error);

struct husk_process {
    const char *command_id, *command, *status, *started_at;
    int pid;
};
struct husk_process_list {
    const struct husk_process *processes;
    size_t count;
    const char *json;
};
/* Those that run, and the last detached ones. */
HUSK_API int husk_commands(struct husk *husk, const char *sandbox, struct husk_process_list **ret,
                           struct husk_error *error);
HUSK_API struct husk_process_list *husk_process_list_free(struct husk_process_list *list);

/* --- packages ------------------------------------------------------------------------------------ */

struct husk_package {
    const char *name, *version; /* version "": none */
    const char *status;         /* "installed", "installing", "failed", "not_installed" */
    const char *error;          /* "": none */
};
struct husk_package_list {
    const struct husk_package *packages;
    size_t count;
    const char *json;
};
struct husk_install {
    const char *const *packages; /* "numpy>=2"; or … */
    size_t package_count;
    const char *requirements; /* … the text of a requirements.txt */
    bool upgrade, pre;
};
struct husk_installed {
    bool success;
    const struct husk_package *packages; /* what is new */
    size_t count;
    const char *output, *error; /* output: all lines, up to 1 MiB; error "": none */
    bool restart_needed;        /* a module that the kernel has imported was replaced */
    const char *json;
};

/* `on_event` (may be NULL) gets HUSK_EVENT_PROGRESS. An install that failed is 0 with success false. */
HUSK_API int husk_install(struct husk *husk, const char *sandbox, const struct husk_install *order,
                          husk_on_event on_event, void *user, struct husk_installed **ret,
                          struct husk_error *error);
HUSK_API struct husk_installed *husk_installed_free(struct husk_installed *installed);
HUSK_API int husk_packages(struct husk *husk, const char *sandbox, struct husk_package_list **ret,
                           struct husk_error *error);
/* One of them: a list of one. */
HUSK_API int husk_package(struct husk *husk, const char *sandbox, const char *name,
                          struct husk_package_list **ret, struct husk_error *error);
HUSK_API struct husk_package_list *husk_package_list_free(struct husk_package_list *list);

/* --- files: paths are relative to /home/user, or start with it -------------------------------------- */

/* A file of this machine becomes `path` there, whole or not at all; folders are made. `local` "-": standard input. */
HUSK_API int husk_upload_file(struct husk *husk, const char *sandbox, const char *local,
                              const char *path, struct husk_error *error);
HUSK_API int husk_upload(struct husk *husk, const char *sandbox, const void *data, size_t length,
                         const char *path, struct husk_error *error);
/* Where bytes come from: up to `room` of them into `data`; 0: that was all; negative: give up. */
typedef ptrdiff_t (*husk_source)(void *data, size_t room, void *user);
/* The same from a callback; `total` 0: not known, else exactly so many bytes are taken, and fewer are HUSK_ERROR_FILE. With `extract` it is a tar or zip that is unpacked into the folder `path` ("": the working
 * directory), as a whole or not at all. */
HUSK_API int husk_upload_from(struct husk *husk, const char *sandbox, husk_source source,
                              void *user, uint64_t total, const char *path, bool extract,
                              struct husk_error *error);

/* Into a file of this machine, which appears, or replaces what is there, when it is complete; of a failure nothing is left. A folder comes as
 * tar. "-": standard output; that, pipes and devices are written as it comes. */
HUSK_API int husk_download_file(struct husk *husk, const char *sandbox, const char *path,
                                const char *local, struct husk_error *error);
struct husk_content {
    struct husk_text data;
    const char *type; /* MIME type */
};
/* Into memory; larger than `limit` bytes (0: 1 GiB): HUSK_ERROR_ANSWER. */
HUSK_API int husk_download(struct husk *husk, const char *sandbox, const char *path, size_t limit,
                           struct husk_content **ret, struct husk_error *error);
HUSK_API struct husk_content *husk_content_free(struct husk_content *content);
/* Where bytes go; not 0: give up. */
typedef int (*husk_sink)(const void *data, size_t length, void *user);
HUSK_API int husk_download_to(struct husk *husk, const char *sandbox, const char *path,
                              husk_sink sink, void *user, struct husk_error *error);

struct husk_file_list {
    const struct husk_file *files;
    size_t count;
    bool incomplete; /* there are more */
    const char *json;
};
/* All files below `folder` (NULL: the working directory); not `recursive`: one level, with folders. */
HUSK_API int husk_files(struct husk *husk, const char *sandbox, const char *folder, bool recursive,
                        struct husk_file_list **ret, struct husk_error *error);
HUSK_API struct husk_file_list *husk_file_list_free(struct husk_file_list *list);
/* A file, or a folder with all that is in it. */
HUSK_API int husk_remove(struct husk *husk, const char *sandbox, const char *path,
                         struct husk_error *error);

#ifdef __cplusplus
}
#endif
#endif
