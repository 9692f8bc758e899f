/* Pid 1 of a container: starts processes when the shim says so, reports their ends, reaps orphans,
 * nothing else.
 *
 * It is executed by the keeper already confined: uid 1000 of a user namespace with one id, no
 * capabilities, seccomp. Its one open descriptor is the socket to the shim; when that ends, init
 * ends, and the kernel ends everything in the container. Static, because no library of the host
 * exists in here; and not dumpable, so that the code it runs cannot look into it.
 *
 * States: one table of started processes, by tag. Nothing is allocated after start but that table.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "husk/init_protocol.h"

enum {
    MAX_PROCESSES = 256,
    MAX_STRINGS = 1024,
    MAX_ENVIRONMENT_FILE = 16 * KIB,
    STDIO_COUNT = 3,
    EXEC_FAILED = 127,
};

static const char environment_file[] = "/opt/husk/environment";
static const char working_directory[] = "/home/user";

struct process {
    uint64_t tag;
    pid_t pid; /* 0: free slot */
};

static struct process processes[MAX_PROCESSES];
static struct process adopted; /* somebody else's child */
static char image_environment[MAX_ENVIRONMENT_FILE];
static char datagram[INIT_DATAGRAM_BYTES];

static struct process *find_process(uint64_t tag)
{
    for (size_t i = 0; i < MAX_PROCESSES; i++) {
        if (processes[i].pid && processes[i].tag == tag)
            return &processes[i];
    }
    return adopted.pid && adopted.tag == tag ? &adopted : NULL;
}

static void report(uint32_t type, uint64_t tag, int value, int descriptor)
{
    struct init_message message = {
        .version = INIT_PROTOCOL_VERSION, .type = type, .tag = tag, .value = value};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control = {0};
    struct iovec part = {.iov_base = &message, .iov_len = sizeof message};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptor >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof control.bytes;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
    }
    if (sendmsg(INIT_SOCKET_FD, &header, MSG_NOSIGNAL) >= 0)
        return;
    /* The sandbox may have used up what its id may have in flight; the shim can do without the descriptor. If that is not it, the
     * shim is gone, and the container of no further use. */
    header.msg_control = NULL;
    header.msg_controllen = 0;
    if (errno != ETOOMANYREFS || sendmsg(INIT_SOCKET_FD, &header, MSG_NOSIGNAL) < 0)
        _exit(1);
}

/* The image says what every process of the sandbox gets: lines KEY=VALUE, read once, before any
 * user code runs. */
static void read_image_environment(void)
{
    int fd = open(environment_file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t length = read(fd, image_environment, sizeof image_environment - 1);
    image_environment[length > 0 ? length : 0] = '\0';
    close(fd);
}

/* Same name before the '='? */
static bool same_variable(const char *a, const char *b)
{
    size_t name = strcspn(a, "=");
    return strncmp(a, b, name + 1) == 0;
}

static size_t put_variable(char **list, size_t count, char *entry)
{
    for (size_t i = 0; i < count; i++) {
        if (same_variable(list[i], entry)) {
            list[i] = entry;
            return count;
        }
    }
    if (count < MAX_STRINGS - 1)
        list[count++] = entry;
    return count;
}

/* In the child only: cuts the image's text into lines in place. */
static char **build_environment(char **extra, size_t extra_count)
{
    static char *list[MAX_STRINGS];
    size_t count = 0;
    char *rest = NULL;
    for (char *line = strtok_r(image_environment, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strchr(line, '=') && line[0] != '#')
            count = put_variable(list, count, line);
    }
    for (size_t i = 0; i < extra_count; i++)
        count = put_variable(list, count, extra[i]);
    list[count] = NULL;
    return list;
}

static void reset_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
}

/* The child: its own session, so that a signal to its group reaches all it starts and nothing else.
 */
static void run_child(char **strings, uint32_t arguments, uint32_t total, const int *stdio)
{
    setsid();
    for (int i = 0; i < STDIO_COUNT; i++) {
        if (dup2(stdio[i], i) < 0)
            _exit(EXEC_FAILED);
    }
    syscall(SYS_close_range, STDIO_COUNT, ~0U, 0);
    reset_signals();
    if (chdir(working_directory) < 0)
        _exit(EXEC_FAILED);
    char *argv[MAX_STRINGS];
    memcpy(argv, strings, arguments * sizeof argv[0]);
    argv[arguments] = NULL;
    char **environment = build_environment(strings + arguments, total - arguments);
    execve(argv[0], argv, environment);
    _exit(EXEC_FAILED);
}

/* Cut `length` bytes of NUL-terminated strings; how many, or -1 when they are not well-formed. */
static int split_strings(char *text, size_t length, char **strings)
{
    int count = 0;
    for (size_t at = 0; at < length; at += strlen(text + at) + 1) {
        if (count == MAX_STRINGS - 1 || !memchr(text + at, '\0', length - at))
            return -1;
        strings[count++] = text + at;
    }
    return count;
}

static void start(const struct init_message *message, char *text, const int *stdio)
{
    char *strings[MAX_STRINGS];
    int total = split_strings(text, message->string_bytes, strings);
    struct process *slot = NULL;
    for (size_t i = 0; i < MAX_PROCESSES && !slot; i++) {
        if (!processes[i].pid)
            slot = &processes[i];
    }
    if (total < 0 || message->argument_count == 0 || message->argument_count > (uint32_t)total) {
        report(INIT_FAILED, message->tag, EINVAL, -1);
        return;
    }
    pid_t pid = slot ? fork() : -1;
    if (pid == 0)
        run_child(strings, message->argument_count, (uint32_t)total, stdio);
    if (pid < 0) {
        report(INIT_FAILED, message->tag, slot ? errno : EAGAIN, -1);
        return;
    }
    *slot = (struct process){.tag = message->tag, .pid = pid};
    int descriptor = (int)syscall(SYS_pidfd_open, pid, 0);
    report(INIT_STARTED, message->tag, pid, descriptor);
    if (descriptor >= 0)
        close(descriptor);
}

static void reap(void)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (size_t i = 0; i < MAX_PROCESSES; i++) {
            if (processes[i].pid != pid)
                continue;
            processes[i].pid = 0;
            report(INIT_EXITED, processes[i].tag, status, -1);
        }
    }
}

static void handle(struct init_message *message, char *text, const int *stdio, size_t stdio_count)
{
    struct process *process;
    switch (message->type) {
    case INIT_START:
        if (stdio_count == STDIO_COUNT)
            start(message, text, stdio);
        else
            report(INIT_FAILED, message->tag, EINVAL, -1);
        break;
    case INIT_SIGNAL:
        process = find_process(message->tag);
        if (process)
            kill(-process->pid, message->value);
        break;
    case INIT_ADOPT:
        adopted =
            (struct process){.tag = message->tag, .pid = message->value > 1 ? message->value : 0};
        break;
    case INIT_KILL_ALL:
        /* From pid 1 this is everything in the container but itself, however often it forks
         * meanwhile. */
        kill(-1, SIGKILL);
        break;
    default:
        break;
    }
}

static size_t take_descriptors(struct msghdr *header, int *descriptors)
{
    size_t count = 0;
    for (struct cmsghdr *rights = CMSG_FIRSTHDR(header); rights;
         rights = CMSG_NXTHDR(header, rights)) {
        if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS)
            continue;
        count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(descriptors, CMSG_DATA(rights), count * sizeof(int));
    }
    return count;
}

static void receive(void)
{
    int descriptors[STDIO_COUNT];
    union {
        char bytes[CMSG_SPACE(sizeof descriptors)];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {.iov_base = datagram, .iov_len = sizeof datagram};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    ssize_t length = recvmsg(INIT_SOCKET_FD, &header, MSG_CMSG_CLOEXEC);
    if (length < 0 && errno == EINTR)
        return;
    if (length <= 0)
        _exit(0);
    size_t count = take_descriptors(&header, descriptors);
    struct init_message message;
    if ((size_t)length >= sizeof message) {
        memcpy(&message, datagram, sizeof message);
        if (message.version == INIT_PROTOCOL_VERSION &&
            (size_t)length == sizeof message + message.string_bytes)
            handle(&message, datagram + sizeof message, descriptors, count);
    }
    for (size_t i = 0; i < count; i++)
        close(descriptors[i]);
}

int main(void)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    prctl(PR_SET_NAME, "husk-init", 0, 0, 0);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    int signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        return 1;
    read_image_environment();
    report(INIT_READY, 0, 0, -1);
    struct pollfd watched[] = {{.fd = INIT_SOCKET_FD, .events = POLLIN},
                               {.fd = signals, .events = POLLIN}};
    for (;;) {
        if (poll(watched, 2, -1) < 0)
            continue;
        if (watched[1].revents) {
            struct signalfd_siginfo info;
            while (read(signals, &info, sizeof info) > 0)
                ;
            reap();
        }
        if (watched[0].revents)
            receive();
    }
}
