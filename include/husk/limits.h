/* Every quantity that a caller or a sandbox can drive, in one place. Checked where it enters. */
#pragma once

enum {
    KIB = 1024,
    MIB = 1024 * KIB,

    /* HTTP */
    MAX_CODE_BYTES = 4 * MIB,
    MAX_JSON_BODY_BYTES =
        MAX_CODE_BYTES * 6 + 64 * KIB, /* code in JSON: every byte may be \u00XX */
    MAX_SMALL_BODY_BYTES = 256 * KIB,  /* bodies of all other routes */
    MAX_CONNECTIONS = 4096,
    CONNECTION_MEMORY_BYTES = 32 * KIB, /* request line and headers of one connection */
    CONNECTION_IDLE_SECONDS = 60,
    MAX_REQUEST_ID_LENGTH = 128,
    MAX_JSON_DEPTH = 64,
    MAX_REQUEST_VALUES = 101000,    /* in the JSON of one request: MAX_STDIN_LINES, and some more */
    MAX_HEADER_BYTES = 16 * KIB,    /* above: 431, by us; far above: by libmicrohttpd */
    MAX_DISCARDED_BYTES = 64 * MIB, /* read of a refused body, so that the answer arrives */
    MAX_BUFFERED_BODIES_BYTES = 256 * MIB, /* of all requests together */
    MAX_UNREAD_ANSWERS_BYTES = 256 * MIB,  /* held for clients; then nothing large is begun */
    RECEIVE_SECONDS = 120,                 /* for the body of a request */
    SEND_SECONDS = 300,                    /* for its answer */

    /* Sandboxes: what create accepts; the operator's maxima come on top */
    MAX_NAME_LENGTH = 63,
    MAX_ENV_ENTRIES = 128,
    MAX_ENV_BYTES = 32 * KIB,
    MIN_MEMORY_MB = 64,
    MAX_MEMORY_MB = 1024 * 1024,
    MIN_DISK_MB = 16,
    MAX_DISK_MB = 1024 * 1024,
    MIN_PIDS = 16,
    MAX_PIDS = 32768,
    MAX_CPUS = 512,
    MIN_TTL_SECONDS = 1,
    MAX_TTL_SECONDS = 365 * 24 * 3600,
    MAX_SANDBOXES = 20000,           /* the id range of P is larger */
    MAX_TOMBSTONES = 4096,           /* closed sandboxes that still answer 410 */
    MAX_RECORD_BYTES = 128 * KIB,    /* huskd's note of a sandbox, kept by its shim */
    MAX_KERNEL_INFO_BYTES = 4 * KIB, /* what a shim tells about its kernel */
    SHIM_PATIENCE_SECONDS =
        30,             /* beyond what a call may take: then the shim hangs, and its sandbox ends */
    START_SECONDS = 60, /* from the container to a kernel that answers */
    ADOPT_SECONDS = 15, /* for a shim that was there before huskd to say who it is */
    MAX_SANDBOX_INOTIFY_INSTANCES = 16, /* of 128 that all sandboxes and shims have together */
    MAX_SANDBOX_INOTIFY_WATCHES = 16384,
    DISK_BYTES_PER_INODE = 4 * KIB, /* a disk of 1 GiB has 262,144 inodes */
    MEMORY_PER_SANDBOX_MB = 64,     /* a guess, for automatic maxima: numpy and pandas are loaded */
    MAX_POOL_SIZE = 256,

    /* Executions, in the shim */
    MAX_QUEUED_EXECUTIONS = 16,
    MAX_TIMEOUT_SECONDS = 24 * 3600,
    MAX_WAITING_REQUESTS = 16,    /* interrupts, and restarts, that wait in a shim for their end */
    MAX_STREAM_BYTES = 1 * MIB,   /* stdout, and stderr, of one execution, head and tail together */
    MAX_RESULT_BYTES = 16 * MIB,  /* one entry of results */
    MAX_RESULTS_BYTES = 24 * MIB, /* all entries of one execution */
    MAX_RESULTS = 1024,           /* entries of one execution */
    MAX_TRACEBACK_BYTES = 256 * KIB,
    MAX_ERROR_TEXT_BYTES = 8 * KIB, /* error and error_value */
    MAX_ANSWER_BYTES = 64 * MIB,    /* a whole answer as JSON */
    MAX_STDIN_BYTES = 1 * MIB,      /* what is given to answer input(), or one answer to it */
    MAX_STDIN_LINES = 100000,
    MAX_INPUT_BODY_BYTES = MAX_STDIN_BYTES * 6 + 64 * KIB,
    MAX_EXECUTE_FRAME_BYTES = (MAX_CODE_BYTES + MAX_STDIN_BYTES + MAX_ENV_BYTES) * 6 +
                              MAX_STDIN_LINES * 4 + 64 * KIB, /* as JSON */
    MAX_PROMPT_BYTES = 4 * KIB,
    MAX_DISPLAY_ID_LENGTH = 255,
    MAX_DISPLAYS_OF_ID = 16,   /* that one update changes: each is rendered anew */
    MAX_TEXT_PATH_LENGTH = 96, /* where a kernel keeps the whole of a text that was cut */
    MAX_KEPT_RESULTS = 32,     /* of detached executions; the oldest is forgotten */
    MAX_KEPT_BYTES = 64 * MIB, /* of those; the newest is kept in any case */
    MAX_EVENT_STREAMS =
        97, /* in a shim: one runs, 16 wait, 32 are commands, 48 may be read to the end */
    STREAM_PENDING_BYTES = 1 * MIB,   /* events that wait for a reader, give or take one event */
    MAX_PENDING_BYTES = 64 * MIB,     /* the same for all streams of a shim together */
    STREAM_WINDOW_BYTES = 256 * KIB,  /* of them, how much huskd holds for its client */
    STREAM_CHUNK_BYTES = 64 * KIB,    /* and how much comes in one message */
    STREAM_STALL_MILLISECONDS = 2000, /* a reader that takes nothing for so long misses events */
    STREAM_SILENCE_MILLISECONDS = 10 * 1000, /* then a keep-alive */

    /* What a prompt asks, in the shim */
    QUESTION_MILLISECONDS =
        5000,           /* for its answer, waiting for others included; then it is interrupted */
    MAX_MATCHES = 1000, /* of one completion */
    MAX_MATCH_BYTES = 1 * KIB,             /* one of them */
    MAX_INSPECTION_BYTES = 256 * KIB,      /* one text about an object */
    MAX_QUESTION_METADATA_BYTES = 1 * MIB, /* more is left out, as JSON */
    MAX_QUESTION_ANSWER_BYTES = 8 * MIB,   /* all of it, as JSON */

    /* Commands, in the shim */
    MAX_COMMANDS = 32,            /* at once, in one sandbox */
    MAX_COMMAND_BYTES = 64 * KIB, /* the text, or all arguments together */
    MAX_COMMAND_ARGUMENTS = 512,  /* of one command */
    MAX_COMMAND_STEPS = 64,       /* that run one after the other */
    MAX_LEFTOVERS = 64, /* pipes of commands that are over, held by processes in the background */
    MAX_DIRECTORY_BYTES = 4095,    /* cwd */
    MAX_SHOWN_COMMAND_BYTES = 200, /* in a list of commands */
    MAX_COMMAND_BODY_BYTES = (MAX_COMMAND_STEPS * MAX_COMMAND_BYTES / 4 + MAX_STDIN_BYTES) * 6,
    MAX_WHOLE_TEXT_BYTES =
        64 *
        MIB, /* of a text that was cut, in a file; for code the kernel has a limit of its own */

    /* MCP, in huskd */
    MAX_MCP_ID_BYTES = 256,         /* of a request's id, and of a progress token */
    MAX_MCP_NAME_BYTES = 128,       /* of a method, a tool, a prompt */
    MAX_MCP_BATCH = 32,             /* messages in one, of 2025-03-26 */
    MAX_MCP_BATCH_BYTES = 32 * MIB, /* its answers; what does not fit gets an error instead */
    MAX_MCP_CALLS = 4096,           /* that wait for something, all together */
    MAX_MCP_HELD_BYTES = 256 * MIB, /* of what they were asked, as long as it is needed */
    MAX_MCP_SESSIONS =
        4096, /* of clients with a handshake; the one unused for longest makes room */
    MAX_MCP_SESSION_CALLS = 64,      /* of them, that wait for something */
    MAX_MCP_SESSION_SANDBOXES = 64,  /* remembered as its own */
    MCP_SESSION_SECONDS = 24 * 3600, /* unused, then it is forgotten */
    MAX_MCP_COMPLETIONS = 100,       /* the protocol's own limit */
    MAX_MCP_LISTED = 500,            /* sandboxes in one answer */
    MAX_MCP_RESOURCE_BYTES = 8 * MIB,
    MAX_MCP_READ_BYTES = 256 * KIB,    /* of a file, for a model, in one answer */
    MAX_MCP_LISTING_BYTES = 128 * KIB, /* of files, for a model or in a page of resources */
    MAX_MCP_PAGE_SANDBOXES = 16,       /* that are asked for one such page */
    MAX_MCP_SUBSCRIPTIONS = 256,       /* files that are watched, all together … */
    MAX_MCP_OWN_SUBSCRIPTIONS = 64,    /* … and for one session, or one that listens */
    MAX_MCP_LISTENERS = 1024,          /* streams of subscriptions/listen */
    MCP_WATCH_MILLISECONDS = 2000,
    MCP_DEFAULT_IDLE_SECONDS = 3600, /* of a sandbox that nobody asked for by name */
    MCP_KEEPALIVE_SECONDS = 10,
    MAX_MCP_SMALL_EVENT_BYTES = 1000 * KIB, /* for clients that refuse events of 1 MiB */

    /* MCP on standard input and output: `husk mcp` */
    MAX_BRIDGE_LINE_BYTES = MAX_JSON_BODY_BYTES, /* a message of the client */
    MAX_BRIDGE_ANSWER_BYTES = MAX_ANSWER_BYTES,  /* a message of huskd */
    MAX_BRIDGE_OUTPUT_BYTES = 32 * MIB, /* that waits for the client; then huskd is not read */
    MAX_BRIDGE_CALLS = 256,             /* that wait for something */
    MAX_BRIDGE_TRANSFERS = 16,          /* of local files, at the same time */
    MAX_BRIDGE_ROOTS = 32,              /* folders that local paths may be in */
    BRIDGE_GRACE_MILLISECONDS = 500,    /* after the end of input, for what is about to end */
    BRIDGE_GOODBYE_MILLISECONDS = 2000, /* for huskd to end the session */
    BRIDGE_START_SECONDS = 30,          /* for a huskd that was started to answer */
    BRIDGE_RETRY_MILLISECONDS = 1000,   /* of a stream that ended, of a cancellation not heeded */

    /* Executions for MCP: a model reads the answer */
    MAX_TOOL_TEXT_BYTES = 64 * KIB,          /* stdout, and stderr, and one result as text */
    MAX_TOOL_RESULTS_BYTES = 512 * KIB,      /* all results as text */
    MAX_TOOL_IMAGES_BYTES = 16 * MIB,        /* all images, as base64 … */
    MAX_TOOL_SMALL_IMAGES_BYTES = 512 * KIB, /* … for clients that refuse large events */
    MAX_TOOL_LINKS = 32,          /* to files, in the content; the structured part has them all */
    MAX_TOOL_LINE_BYTES = 160,    /* of the last line of output, in a progress notification */
    PROGRESS_MILLISECONDS = 1000, /* between two of them */

    /* Files of a sandbox */
    MAX_FILE_PATH_BYTES = 1024, /* relative to the working directory */
    MAX_FILE_NAME_BYTES = 255,
    MAX_LINK_SECONDS = MAX_TTL_SECONDS,
    MAX_UPLOAD_BYTES = 1024 * MIB,               /* the body of a PUT */
    MAX_FORM_BYTES = MAX_UPLOAD_BYTES + 1 * MIB, /* the same in a form, with what is around it */
    MAX_FORM_PARTS = 512,
    MAX_FORM_FILES = 100,            /* each is a descriptor until the form ends */
    MAX_PART_HEADER_BYTES = 8 * KIB, /* of one part of a form */
    MAX_OPEN_UPLOADS = 1024,         /* files that are being received, of all requests */
    LEAST_UPLOAD_RATE = 64 * KIB,    /* bytes a second, after the first RECEIVE_SECONDS */
    MAX_PORTERS = 32,                /* jobs on folders at the same time */
    MAX_PORTERS_OF_SANDBOX = 4,
    PORTER_MEMORY_BYTES = 256 * MIB,    /* its own; the sandbox pays for it, too */
    PORTER_SECONDS = 300,               /* without a block that huskd takes */
    PORTER_BLOCK_BYTES = 64 * KIB,      /* of data on its way to huskd */
    MAX_LISTED_FILES = 100000,          /* in one listing; then it is incomplete */
    MAX_PORTER_DEPTH = 256,             /* folders in folders, in listings and archives */
    MAX_UNPACKED_ENTRIES = 100000,      /* of one archive */
    MAX_UNPACK_RATIO = 200,             /* bytes unpacked for each of the archive, … */
    UNPACK_RATIO_FREE_BYTES = 64 * MIB, /* … beyond so many */
    MAX_WAITING_OPENS = 64,             /* opened by the keeper, not yet taken by huskd */
    DOWNLOAD_BLOCK_BYTES = 64 * KIB, /* of a file in memory, for each client that downloads one */
    LEAST_DOWNLOAD_RATE = 64 * KIB,  /* bytes a second, after the first SEND_SECONDS */
    MAX_SEND_SECONDS = 24 * 3600,
    MAX_CHANGED_FILES = 256,     /* told of one execution */
    MAX_WALKED_FILES = 200000,   /* looked at after one execution */
    MAX_WALKED_DEPTH = 64,       /* folders in folders; as many descriptors */
    MAX_WAITING_FOLDERS = 16384, /* found, not yet looked into: some hundred bytes each */
    UNWATCHED_FILES = 1000,      /* always looked at; a tree that has more gets watches */
    MAX_WATCHED_FOLDERS = 8192,  /* by each shim; two events for each fit into an inotify queue */
    WALK_MS = 250,               /* for all of it: nothing else happens in the shim meanwhile */

    /* Packages */
    MAX_REQUIREMENTS = 256,            /* in one request */
    MAX_REQUIREMENT_BYTES = 512,       /* one of them */
    MAX_REQUIREMENTS_BYTES = 64 * KIB, /* all of them, or the text of a requirements.txt */
    MAX_INSTALL_PACKAGES = 256,        /* that they lead to, dependencies included */
    MAX_INSTALLED_PACKAGES = 4096,     /* told of a sandbox */
    MAX_PACKAGE_NAME = 100,            /* in bytes, as are the next two */
    MAX_PACKAGE_VERSION = 64,
    MAX_WHEEL_NAME = 200,
    MAX_INSTALL_OUTPUT = 32 * KIB,   /* of one install, for whoever asked */
    MAX_QUEUED_INSTALLS = 16,        /* in one sandbox, the running one included */
    MAX_FETCHES = 4,                 /* at once, for all sandboxes; others wait */
    MAX_KEPT_FAILURES = 32,          /* of installs, told by GET …/packages/{name} */
    MAX_PACKAGE_CLIENTS = 32,        /* of pip inside a sandbox, at once */
    MAX_FETCH_FRAME_BYTES = 2 * MIB, /* a job with its certificates; an answer */
    MAX_CERTIFICATES_BYTES = 1 * MIB,
    MAX_FETCHER_THREADS = 512, /* of all fetchers together */
    FETCHER_MEMORY_BYTES = 1024 * MIB,
    FETCHER_TMP_BYTES = 64 * MIB,
    LIST_SECONDS = 30, /* to say what is installed */

    /* What a kernel may send, per message */
    MAX_WIRE_FRAMES = 64,
    MAX_WIRE_FRAME_BYTES = 32 * MIB,
    MAX_WIRE_MESSAGE_BYTES = 48 * MIB,
    MAX_WIRE_HEADER_BYTES = 64 * KIB,
    WIRE_RECEIVE_QUEUE =
        8, /* messages that libzmq may hold for a channel, each as large as the above */
    MAX_JSON_VALUES = 1024 * 1024, /* in one message: each costs some forty bytes when parsed */
    MAX_SHIM_THREADS = 16,         /* libzmq has two */
    SHIM_MEMORY_BYTES = 384 * MIB,

    /* The prompt of `husk repl` */
    MAX_HISTORY_ENTRIES = 5000,
    MAX_HISTORY_BYTES = 4 * MIB,      /* of its file */
    MAX_HISTORY_CELL = 32 * KIB,      /* characters; longer ones are not remembered */
    MAX_PASTE_CHARACTERS = 256 * KIB, /* at once */
    MAX_COMPLETIONS = 5000,           /* looked at */
    MAX_SHOWN_COMPLETIONS = 200,      /* listed */

    /* Between the programs */
    /* Of one started process: argv, the working directory, the sandbox's environment and its own */
    MAX_INIT_STRINGS_BYTES = MAX_COMMAND_BYTES + 2 * MAX_ENV_BYTES + 8 * KIB,
    MAX_KERNEL_LOG_BYTES = 16 * KIB, /* last words of a kernel that did not start */

    /* The client library: what it takes from whatever listens where Husk should */
    CLIENT_ANSWER_BYTES = 256 * MIB, /* of JSON */
    CLIENT_PROBLEM_BYTES = 1 * MIB,  /* of an answer that says no */
    CLIENT_LINE_BYTES = 96 * MIB,    /* of a stream: one event; MAX_PENDING_BYTES, and some more */
    CLIENT_HEADER_BYTES = 64 * KIB,  /* of one answer, interim ones and trailers included */
    CLIENT_JSON_VALUES =
        8 * 1024 * 1024,            /* in one answer: each costs some forty bytes when parsed */
    CLIENT_PATH_BYTES = 8 * KIB,    /* of a path that a caller names, before it is encoded */
    CLIENT_NAME_BYTES = 256,        /* of a sandbox, an execution, a command, a package */
    CLIENT_URL_BYTES = 4 * KIB,     /* of a service */
    CLIENT_INSTALL_BYTES = 1 * MIB, /* of the lines of an install, together */
    CLIENT_SLOW_SECONDS = 120, /* for calls that wait for a kernel or its end: create, restart, … */
    CLIENT_UNPACK_SECONDS = PORTER_SECONDS, /* for what a porter does with folders and archives */
    CLIENT_RETRY_SECONDS = 5,               /* at most, between two attempts */
};

#define LEAST_TIMEOUT  0.001 /* seconds, of code and of a command */
#define MAX_MCP_OFFSET 1e15  /* into a file: a whole number in every JSON */
