/* Pid 1 of a container: starts processes when the shim says so, reports their ends, reaps orphans,
 * nothing else.
 *
 * It is executed by the keeper already confined: uid 1000 of a user namespace with one id, no
 * capabilities, seccomp. Its one open descriptor is the socket to the shim; when that ends, init
 * ends, and the kernel ends everything in the container. Static, because no library of the host
 * exists in here; and not dumpable, so that the code it runs cannot look into it.
 *
 * States: one table of started processes, by tag; one that was started apart stays in it after its end, until the shim has
 * forgotten it, so that the rest of its group can be signalled. Nothing is allocated after start but that table.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
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
    MAX_ROUNDS = 32, /* of looking for processes that are to be killed */
};

static const char environment_file[] = "/opt/husk/environment";
static const char working_directory[] = "/home/user";

struct process {
    uint64_t tag;
    pid_t
        pid; /* 0: free slot. Its group's and session's number too, which nobody else gets while they have members */
    bool apart;     /* INIT_APART */
    bool ended;     /* only if apart: it was reaped */
    bool forgotten; /* it ends unnoticed */
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

static void send_message(struct init_message message, int descriptor)
{
    message.version = INIT_PROTOCOL_VERSION;
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

static void report(uint32_t type, uint64_t tag, int value, int descriptor)
{
    send_message((struct init_message){.type = type, .tag = tag, .value = value}, descriptor);
}

static void report_failure(uint64_t tag, enum init_step step, int code)
{
    send_message(
        (struct init_message){.type = INIT_FAILED, .tag = tag, .value = code, .flags = step}, -1);
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
    /* By the system call: libc keeps 32 and 33 to itself, but whoever started Husk may have had them ignored. */
    const struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        uint64_t mask;
    } standard = {0};
    for (int number = 1; number < NSIG; number++)
        syscall(SYS_rt_sigaction, number, &standard, NULL, sizeof standard.mask);
}

/* What to start: views of the datagram. */
struct order {
    uint64_t tag;
    const char *directory; /* NULL: the home directory */
    char **arguments;
    size_t argument_count;
    char **variables;
    size_t variable_count;
    const int *stdio;
};

/* The child, which the shim hears from by the same socket if it fails: that one is closed by execve(). */
static void give_up(const struct order *order, enum init_step step)
{
    report_failure(order->tag, step, errno);
    _exit(EXEC_FAILED);
}

/* The child: its own session, so that a signal to its group reaches all it starts and nothing else.
 */
static void run_child(const struct order *order)
{
    setsid();
    for (int i = 0; i < STDIO_COUNT; i++) {
        if (dup2(order->stdio[i], i) < 0)
            give_up(order, INIT_STEP_FORK);
    }
    if (syscall(SYS_close_range, STDIO_COUNT, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        give_up(order, INIT_STEP_FORK);
    reset_signals();
    if (chdir(working_directory) < 0 || (order->directory && chdir(order->directory) < 0))
        give_up(order, INIT_STEP_DIRECTORY);
    char *argv[MAX_STRINGS];
    memcpy(argv, order->arguments, order->argument_count * sizeof argv[0]);
    argv[order->argument_count] = NULL;
    environ = build_environment(order->variables, order->variable_count);
    execvp(argv[0], argv);
    struct stat what;
    if (errno == EACCES && strchr(argv[0], '/') && stat(argv[0], &what) == 0)
        errno = S_ISDIR(what.st_mode) ? EISDIR : EACCES; /* as a shell would say it */
    give_up(order, INIT_STEP_EXECUTE);
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

static struct process *free_slot(void)
{
    for (size_t i = 0; i < MAX_PROCESSES; i++) {
        if (!processes[i].pid)
            return &processes[i];
    }
    return NULL;
}

static void start(const struct init_message *message, char *text, const int *stdio)
{
    char *strings[MAX_STRINGS];
    int total = split_strings(text, message->string_bytes, strings);
    int first = message->flags & INIT_IN ? 1 : 0;
    if (message->argument_count == 0 || message->argument_count > MAX_STRINGS ||
        total < first + (int)message->argument_count)
        return report_failure(message->tag, INIT_STEP_FORK, EINVAL);
    struct order order = {
        .tag = message->tag,
        .directory = first ? strings[0] : NULL,
        .arguments = strings + first,
        .argument_count = message->argument_count,
        .variables = strings + first + message->argument_count,
        .variable_count = (size_t)total - (size_t)first - message->argument_count,
        .stdio = stdio,
    };
    struct process *slot = free_slot();
    pid_t pid = slot ? fork() : -1;
    if (pid == 0)
        run_child(&order);
    if (pid < 0)
        return report_failure(message->tag, INIT_STEP_FORK, slot ? errno : EAGAIN);
    *slot = (struct process){
        .tag = message->tag, .pid = pid, .apart = (message->flags & INIT_APART) != 0};
    int descriptor = (int)syscall(SYS_pidfd_open, pid, 0);
    report(INIT_STARTED, message->tag, pid, descriptor);
    if (descriptor >= 0)
        close(descriptor);
}

static void process_ended(struct process *process, int status)
{
    if (!process->forgotten)
        report(INIT_EXITED, process->tag, status, -1);
    if (process->apart && !process->forgotten)
        process->ended = true;
    else
        process->pid = 0;
}

static void reap(void)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (size_t i = 0; i < MAX_PROCESSES; i++) {
            if (processes[i].pid == pid && !processes[i].ended)
                process_ended(&processes[i], status);
        }
    }
}

static void forget(uint64_t tag)
{
    struct process *process = find_process(tag);
    if (!process || !process->apart)
        return;
    if (process->ended)
        process->pid = 0;
    else
        process->forgotten = true;
}

/* --- killing some of all -------------------------------------------------------------------- */

typedef bool (*choice)(pid_t pid, pid_t session, const void *user);

struct entry { /* struct linux_dirent64 */
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

/* One part of a listing of /proc. */
static void kill_listed(const char *listing, size_t length, choice chosen, const void *user)
{
    for (size_t at = 0; at < length;) {
        const struct entry *entry = (const void *)(listing + at);
        at += entry->length;
        pid_t pid = (pid_t)strtol(entry->name, NULL, 10);
        if (pid > 1 && chosen(pid, getsid(pid), user))
            kill(pid, SIGKILL); /* again, if it is still dying: that does not hurt */
    }
}

/* One look at all processes. */
static void kill_seen(choice chosen, const void *user)
{
    static _Alignas(struct entry) char listing[8 * KIB];
    int directory = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return;
    for (long n; (n = syscall(SYS_getdents64, directory, listing, sizeof listing)) > 0;)
        kill_listed(listing, (size_t)n, chosen, user);
    close(directory);
}

/* The number that was given out last in this container, to a process that may not even have come into being; -1: not known. */
static long last_number(void)
{
    char text[128];
    int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = '\0';
    const char *last = strrchr(text, ' ');
    return last ? strtol(last + 1, NULL, 10) : -1;
}

/* A look can miss who is born behind it, as numbers are used again. It misses nobody if none is given out meanwhile: who
 * was there has been seen; who was being born during the first look is there for the second one, since a killed parent does
 * not complete its fork. Where that does not come about by itself everybody is held, and goes on afterwards. False: there is
 * no end to them, as they let each other go. */
static bool kill_chosen(choice chosen, const void *user)
{
    bool complete = false;
    int round = 0;
    for (; !complete && round < MAX_ROUNDS; round++) {
        if (round > 0)
            kill(-1, SIGSTOP); /* all at once, and who is being born, too */
        long before = last_number();
        kill_seen(chosen, user);
        kill_seen(chosen, user);
        complete = before >= 0 && last_number() == before;
    }
    if (round > 1)
        kill(-1, SIGCONT);
    return complete;
}

static bool of_session(pid_t pid, pid_t session, const void *user)
{
    pid_t leader = *(const pid_t *)user;
    return pid == leader || session == leader;
}

static bool not_apart(pid_t pid, pid_t session, const void *user)
{
    (void)user;
    for (size_t i = 0; i < MAX_PROCESSES; i++) {
        if (processes[i].pid && processes[i].apart && of_session(pid, session, &processes[i].pid))
            return false;
    }
    return true;
}

static bool any_apart(void)
{
    bool found = false;
    for (size_t i = 0; i < MAX_PROCESSES; i++)
        found |= processes[i].pid && processes[i].apart;
    return found;
}

static void kill_others(void)
{
    if (!any_apart() || !kill_chosen(not_apart, NULL))
        kill(-1, SIGKILL); /* from pid 1: everything but itself, however often it forks meanwhile */
}

static void signal_process(const struct process *process, int number)
{
    kill(-process->pid, number);
    if (number == SIGKILL && process->apart)
        (void)kill_chosen(of_session, &process->pid);
}

static void handle(struct init_message *message, char *text, const int *stdio, size_t stdio_count)
{
    struct process *process;
    switch (message->type) {
    case INIT_START:
        if (stdio_count == STDIO_COUNT)
            start(message, text, stdio);
        else
            report_failure(message->tag, INIT_STEP_FORK, EINVAL);
        break;
    case INIT_SIGNAL:
        process = find_process(message->tag);
        if (process)
            signal_process(process, message->value);
        break;
    case INIT_ADOPT:
        adopted =
            (struct process){.tag = message->tag, .pid = message->value > 1 ? message->value : 0};
        break;
    case INIT_KILL_ALL:
        kill(-1, SIGKILL);
        break;
    case INIT_KILL_OTHERS:
        kill_others();
        break;
    case INIT_FORGET:
        forget(message->tag);
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
