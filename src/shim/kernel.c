#include "shim/kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "husk/limits.h"
#include "shim/fork_link.h"
#include "shim/init_link.h"
#include "shim/kernel_environment.h"
#include "shim/kernel_files.h"
#include "shim/kernel_info.h"
#include "shim/last_words.h"

enum {
    /* Between two kernel_info_requests: the first waits in its queue until the kernel is there, so more are hardly ever
     * needed, until it has answered and only something on iopub is missing. */
    HANDSHAKE_MILLISECONDS = 500,
    NUDGE_MILLISECONDS = 20,
    START_MILLISECONDS = (START_SECONDS - 5) * 1000, /* before huskd's patience ends: we know why */
    STOP_MILLISECONDS = 10 * 1000,                   /* for everything in a container to be gone */
    EXIT_MILLISECONDS = 500, /* for init to say how a process ended that has ended */
    RETRY_MILLISECONDS =
        500,               /* after a failed start; what was just killed may still be in the way */
    MAX_FAILED_STARTS = 3, /* in a row */
    FORK_MILLISECONDS = 3000, /* for a forked process to be there; then one is executed */
    EXIT_TEXT_SIZE = 64,
};

struct kernel {
    struct kernel_setup setup;
    struct fork_link *forks;
    bool forked;      /* this generation is, or is being, forked; else it is executed */
    bool joined;      /* and it runs */
    bool avoid_forks; /* for the next generation */
    struct channels *channels;
    enum kernel_state state;
    unsigned generation;
    unsigned failed_starts; /* in a row */
    bool was_ready;         /* any generation */
    uint64_t started_at;
    struct buffer environment; /* for init: "KEY=value", NUL, … */
    bool running; /* a process may be there: from the request to start it to the news of its end */
    int pidfd;    /* -1: not known */
    struct source *pidfd_source;
    struct last_words last_words;
    uint64_t first_number; /* of the handshake's requests */
    bool answered;         /* kernel_info_reply has come */
    bool heard;            /* something has come on iopub */
    struct timer *handshake_timer;
    struct timer *deadline_timer; /* of starting, or of stopping */
    struct timer *exit_timer;
    struct timer *retry_timer;
    struct timer *fork_timer;
    json_t *info;
    char *detail;
};

static void start_generation(struct kernel *kernel);

static void set_state(struct kernel *kernel, enum kernel_state to)
{
    static const unsigned allowed[] = {
        [KERNEL_NEW] = 1U << KERNEL_STARTING,
        [KERNEL_STARTING] = 1U << KERNEL_READY | 1U << KERNEL_STOPPING | 1U << KERNEL_DEAD,
        [KERNEL_READY] = 1U << KERNEL_STOPPING,
        [KERNEL_STOPPING] = 1U << KERNEL_STARTING | 1U << KERNEL_DEAD,
        [KERNEL_DEAD] = 0,
    };
    husk_assert(allowed[kernel->state] & (1U << to));
    kernel->state = to;
    kernel->setup.events->changed(kernel->setup.user);
}

/* --- the end of a process ------------------------------------------------------------------- */

static void forget_process(struct kernel *kernel)
{
    kernel->running = false;
    fork_link_forget(kernel->forks);
    timer_disarm(kernel->fork_timer);
    kernel->pidfd_source = source_remove(kernel->pidfd_source);
    kernel->pidfd = close_fd(kernel->pidfd);
    timer_disarm(kernel->exit_timer);
}

static int kill_everything(struct kernel *kernel)
{
    kernel->setup.events->swept(kernel->setup.user);
    return init_link_kill_all(kernel->setup.init);
}

static void give_up(struct kernel *kernel, const char *reason)
{
    last_words_close(&kernel->last_words);
    _cleanup_free_ char *words = last_words_text(&kernel->last_words);
    kernel->detail = must_format("%s%s%s", reason, *words ? " Its last words: " : "", words);
    timer_disarm(kernel->handshake_timer);
    timer_disarm(kernel->deadline_timer);
    channels_close(kernel->channels);
    kernel_files_remove(kernel->generation);
    (void)kill_everything(kernel);
    log_event(LOG_ERROR, "no kernel can be had", "reason", kernel->detail, NULL);
    set_state(kernel, KERNEL_DEAD);
    kernel->setup.events->given_up(kernel->setup.user, kernel->detail);
}

/* Everything in the container but commands ends; the next generation starts when the kernel's process is gone. */
static void clear_container(struct kernel *kernel)
{
    timer_disarm(kernel->handshake_timer);
    timer_disarm(kernel->deadline_timer);
    channels_close(kernel->channels);
    int r = kernel->failed_starts > 0 ? kill_everything(kernel)
                                      : init_link_kill_others(kernel->setup.init);
    if (r < 0)
        return give_up(kernel, "The container's init does not answer.");
    if (kernel->running)
        timer_arm(kernel->deadline_timer, STOP_MILLISECONDS);
    else if (kernel->failed_starts > 0)
        timer_arm(kernel->retry_timer, kernel->failed_starts * RETRY_MILLISECONDS);
    else
        start_generation(kernel);
}

static void retry_expired(struct timer *timer _unused_, void *user)
{
    start_generation(user);
}

static void start_failed(struct kernel *kernel, const char *reason)
{
    kernel->failed_starts++;
    log_event(LOG_WARNING, "kernel did not start", "generation", log_number(kernel->generation),
              "reason", reason, NULL);
    /* The first start is somebody waiting for a sandbox: better a quick answer than another minute.
     */
    if (!kernel->was_ready || kernel->failed_starts >= MAX_FAILED_STARTS) {
        _cleanup_free_ char *sentence = must_format("The kernel did not start: %s.", reason);
        return give_up(kernel, sentence);
    }
    set_state(kernel, KERNEL_STOPPING);
    clear_container(kernel);
}

static void describe_exit(int status, char text[EXIT_TEXT_SIZE])
{
    const char *name = WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : NULL;
    if (name)
        (void)snprintf(text, EXIT_TEXT_SIZE, "was killed by SIG%s", name);
    else if (WIFSIGNALED(status))
        (void)snprintf(text, EXIT_TEXT_SIZE, "was killed by signal %d", WTERMSIG(status));
    else if (WIFEXITED(status))
        (void)snprintf(text, EXIT_TEXT_SIZE, "ended with exit code %d", WEXITSTATUS(status));
    else
        (void)snprintf(text, EXIT_TEXT_SIZE, "ended");
}

static void process_ended(struct kernel *kernel, const char *how)
{
    forget_process(kernel);
    if (kernel->state == KERNEL_STARTING) {
        _cleanup_free_ char *reason = must_format("it %s", how);
        start_failed(kernel, reason);
    } else if (kernel->state == KERNEL_READY) {
        log_event(LOG_INFO, "kernel ended", "generation", log_number(kernel->generation), "how",
                  how, NULL);
        /* First the state, so that nothing new is sent to it; then what it had still to say. */
        set_state(kernel, KERNEL_STOPPING);
        channels_hold_output(kernel->channels, false);
        channels_pump(kernel->channels);
        kernel->setup.events->lost(kernel->setup.user, how);
        clear_container(kernel);
    } else if (kernel->state == KERNEL_STOPPING) {
        start_generation(kernel);
    }
}

static void exit_expired(struct timer *timer _unused_, void *user)
{
    process_ended(user, "ended");
}

/* The host says that the process has ended. Init knows how, and should say so in a moment. */
static void pidfd_readable(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct kernel *kernel = user;
    kernel->pidfd_source = source_remove(kernel->pidfd_source);
    timer_arm(kernel->exit_timer, EXIT_MILLISECONDS);
}

/* --- what init says ------------------------------------------------------------------------- */

static void watch_process(struct kernel *kernel, int fd)
{
    _cleanup_close_ int pidfd = fd;
    if (!kernel->running || pidfd < 0 || kernel->pidfd >= 0)
        return;
    kernel->pidfd_source = source_add(kernel->setup.loop, pidfd, EPOLLIN, pidfd_readable, kernel);
    if (kernel->pidfd_source)
        kernel->pidfd = TAKE_DESCRIPTOR(pidfd);
}

static struct init_name name_of(const struct kernel *kernel)
{
    return (struct init_name){INIT_KERNEL, kernel->generation};
}

static void init_started(void *user, uint64_t tag, int pid _unused_, int fd)
{
    struct kernel *kernel = user;
    watch_process(kernel, tag == kernel->generation && !kernel->forked ? fd : (close_fd(fd), -1));
}

static void init_failed(void *user, uint64_t tag, enum init_step step _unused_, int code)
{
    struct kernel *kernel = user;
    if (tag != kernel->generation || !kernel->running || kernel->forked)
        return;
    char how[EXIT_TEXT_SIZE];
    (void)snprintf(how, sizeof how, "could not be executed: %s", strerror(code));
    process_ended(kernel, how);
}

static void init_exited(void *user, uint64_t tag, int status)
{
    struct kernel *kernel = user;
    if (tag != kernel->generation || !kernel->running || kernel->forked)
        return;
    char how[EXIT_TEXT_SIZE];
    describe_exit(status, how);
    process_ended(kernel, how);
}

static void init_gone(void *user)
{
    struct kernel *kernel = user;
    kernel->setup.events->container_gone(kernel->setup.user);
}

static const struct init_events init_events = {init_started, init_failed, init_exited, init_gone};

/* --- starting ------------------------------------------------------------------------------- */

static int execute(struct kernel *kernel, const char *file, int output, struct failure *why)
{
    const char *const arguments[] = {
        "/opt/venv/bin/python", "-P", "/opt/husk/kernel.py", "-f", file, NULL};
    struct init_command command = {
        .arguments = arguments,
        .environment = kernel->environment.data,
        .environment_bytes = kernel->environment.length,
        .stdio = {kernel->setup.null_fd, output, output},
    };
    return init_link_start(kernel->setup.init, name_of(kernel), &command, why);
}

static int ask_for_fork(struct kernel *kernel, const char *file, int output)
{
    struct fork_order order = {
        .connection_file = file,
        .environment = kernel->environment.data,
        .environment_bytes = kernel->environment.length,
        .output = output,
    };
    struct failure why;
    return fork_link_start(kernel->forks, &order, &why);
}

/* Forked if that can be asked for, and executed otherwise. */
static int launch(struct kernel *kernel, bool may_fork, struct failure *why)
{
    char file[KERNEL_FILE_NAME_SIZE];
    (void)snprintf(file, sizeof file, KERNEL_FILE_ROOT KERNEL_FILE_FORMAT, kernel->generation);
    _cleanup_close_ int writer = -1;
    int r = last_words_open(&kernel->last_words, kernel->setup.loop, &writer, why);
    if (r < 0)
        return r;
    kernel->joined = false;
    kernel->forked = may_fork && ask_for_fork(kernel, file, writer) == 0;
    if (kernel->forked)
        timer_arm(kernel->fork_timer, FORK_MILLISECONDS);
    else
        r = execute(kernel, file, writer, why);
    kernel->running = r == 0;
    return r;
}

/* --- what the zygote says ------------------------------------------------------------------- */

static void fork_started(void *user, int pidfd)
{
    watch_process(user, pidfd);
}

static void fork_joined(void *user, int pid)
{
    struct kernel *kernel = user;
    kernel->joined = true;
    timer_disarm(kernel->fork_timer);
    (void)init_link_adopt(kernel->setup.init, name_of(kernel), pid);
}

/* Nothing of it has run: the same files can be used by one that is executed. */
static void fork_failed(void *user, const char *text)
{
    struct kernel *kernel = user;
    struct failure why;
    if (!kernel->running || kernel->joined)
        return;
    log_event(LOG_DEBUG, "kernel is not forked", "reason", text, NULL);
    forget_process(kernel);
    if (launch(kernel, false, &why) < 0)
        start_failed(kernel, why.text);
}

static void fork_exited(void *user, int status)
{
    struct kernel *kernel = user;
    if (!kernel->running)
        return;
    char how[EXIT_TEXT_SIZE];
    describe_exit(status, how);
    process_ended(kernel, how);
}

/* The zygote has ended, or hangs. A kernel that runs is watched by its pidfd; one that may or may not be on its way is not waited
 * for. */
static void fork_lost(void *user)
{
    struct kernel *kernel = user;
    if (!kernel->running || kernel->joined || kernel->state != KERNEL_STARTING)
        return;
    forget_process(kernel);
    kernel->avoid_forks = true;
    set_state(kernel, KERNEL_STOPPING);
    clear_container(kernel);
}

static void fork_expired(struct timer *timer _unused_, void *user)
{
    log_event(LOG_WARNING, "kernel is not forked in time", NULL);
    fork_lost(user);
}

static const struct fork_events fork_events = {fork_started, fork_joined, fork_failed, fork_exited,
                                               fork_lost};

static void ask_info(struct kernel *kernel)
{
    struct message_body body = {.type = "kernel_info_request"};
    uint64_t number;
    if (channels_send(kernel->channels, CHANNEL_SHELL, &body, &number) < 0)
        return;
    if (kernel->first_number == 0)
        kernel->first_number = number;
}

static void handshake_expired(struct timer *timer, void *user)
{
    struct kernel *kernel = user;
    ask_info(kernel);
    timer_arm(timer, kernel->answered ? NUDGE_MILLISECONDS : HANDSHAKE_MILLISECONDS);
}

/* The files of the generation before go only now, when nobody is left in the container who could
 * take their place on a full disk. */
static void start_generation(struct kernel *kernel)
{
    kernel_files_remove(kernel->generation);
    kernel->generation++;
    kernel->answered = false;
    kernel->heard = false;
    kernel->first_number = 0;
    kernel->started_at = now_ms();
    set_state(kernel, KERNEL_STARTING);

    struct failure why;
    char key[KERNEL_KEY_SIZE];
    int r = kernel_files_write(kernel->generation, key, &why);
    if (r == 0)
        r = channels_open(kernel->channels, kernel->generation, key, &why);
    if (r == 0)
        r = launch(kernel, !kernel->avoid_forks, &why);
    kernel->avoid_forks = false;
    if (r < 0)
        return start_failed(kernel, why.text);
    timer_arm(kernel->deadline_timer, START_MILLISECONDS);
    handshake_expired(kernel->handshake_timer, kernel);
}

static void deadline_expired(struct timer *timer _unused_, void *user)
{
    struct kernel *kernel = user;
    if (kernel->state == KERNEL_STARTING)
        start_failed(kernel, "it did not answer in time");
    else if (kernel->state == KERNEL_STOPPING)
        give_up(kernel, "The kernel's process could not be ended.");
}

static void become_ready(struct kernel *kernel)
{
    timer_disarm(kernel->handshake_timer);
    timer_disarm(kernel->deadline_timer);
    kernel->failed_starts = 0;
    kernel->was_ready = true;
    log_event(LOG_INFO, "kernel ready", "generation", log_number(kernel->generation),
              "milliseconds", log_number((int64_t)(now_ms() - kernel->started_at)), NULL);
    set_state(kernel, KERNEL_READY);
    kernel->setup.events->ready(kernel->setup.user);
}

/* --- messages ------------------------------------------------------------------------------- */

static void take_message(void *user, enum channel channel, const struct message *message,
                         uint64_t number)
{
    struct kernel *kernel = user;
    if (kernel->state != KERNEL_STARTING)
        return kernel->setup.events->message(kernel->setup.user, channel, message, number);
    if (channel == CHANNEL_IOPUB)
        kernel->heard = true;
    if (channel == CHANNEL_SHELL && strcmp(message->type, "kernel_info_reply") == 0 &&
        number >= kernel->first_number && number > 0) {
        if (!kernel->answered)
            timer_arm(kernel->handshake_timer, NUDGE_MILLISECONDS);
        kernel->answered = true;
        json_decref(kernel->info);
        kernel->info = kernel_info_summary(message->content);
    }
    if (kernel->answered && kernel->heard)
        become_ready(kernel);
}

static void message_damaged(void *user)
{
    struct kernel *kernel = user;
    kernel->setup.events->damaged(kernel->setup.user);
}

static const struct channels_events channels_events = {take_message, message_damaged};

/* --- for the owner -------------------------------------------------------------------------- */

struct kernel *kernel_new(const struct kernel_setup *setup, struct failure *why)
{
    struct kernel *kernel = must_alloc(sizeof *kernel);
    *kernel = (struct kernel){.setup = *setup, .pidfd = -1};
    kernel->handshake_timer = timer_add(setup->loop, handshake_expired, kernel);
    kernel->deadline_timer = timer_add(setup->loop, deadline_expired, kernel);
    kernel->exit_timer = timer_add(setup->loop, exit_expired, kernel);
    kernel->retry_timer = timer_add(setup->loop, retry_expired, kernel);
    kernel->fork_timer = timer_add(setup->loop, fork_expired, kernel);
    kernel->forks = fork_link_new(setup->loop, setup->fork_socket, &fork_events, kernel);
    init_link_listen(setup->init, INIT_KERNEL, &init_events, kernel);
    kernel->channels = channels_new(setup->loop, &channels_events, kernel, why);
    return kernel->channels ? kernel : kernel_free(kernel);
}

struct kernel *kernel_free(struct kernel *kernel)
{
    if (!kernel)
        return NULL;
    forget_process(kernel);
    last_words_free(&kernel->last_words);
    channels_free(kernel->channels);
    fork_link_free(kernel->forks);
    timer_remove(kernel->handshake_timer);
    timer_remove(kernel->deadline_timer);
    timer_remove(kernel->exit_timer);
    timer_remove(kernel->retry_timer);
    timer_remove(kernel->fork_timer);
    buffer_free(&kernel->environment);
    json_decref(kernel->info);
    free(kernel->detail);
    free(kernel);
    return NULL;
}

int kernel_start(struct kernel *kernel, const json_t *environment, unsigned threads,
                 struct failure *why)
{
    if (kernel->state != KERNEL_NEW)
        return fail_plain(why, EINVAL, "the kernel was started before");
    int r = kernel_environment_set(&kernel->environment, environment, threads, why);
    if (r < 0)
        return r;
    start_generation(kernel);
    return 0;
}

void kernel_replace(struct kernel *kernel)
{
    if (kernel->state != KERNEL_READY)
        return;
    set_state(kernel, KERNEL_STOPPING);
    clear_container(kernel);
}

void kernel_signal(struct kernel *kernel, int signal)
{
    (void)init_link_signal(kernel->setup.init, name_of(kernel), signal);
}

int kernel_send(struct kernel *kernel, enum channel channel, const struct message_body *body,
                uint64_t *ret_number)
{
    if (kernel->state != KERNEL_READY)
        return -ENOTCONN;
    return channels_send(kernel->channels, channel, body, ret_number);
}

int kernel_ask(struct kernel *kernel, enum channel channel, const char *type, uint64_t *ret_number)
{
    return kernel_send(kernel, channel, &(struct message_body){.type = type}, ret_number);
}

void kernel_hold_output(struct kernel *kernel, bool hold)
{
    channels_hold_output(kernel->channels, hold);
}

void kernel_reopen(struct kernel *kernel, enum channel channel)
{
    struct failure why;
    if (kernel->state == KERNEL_READY && channels_reopen(kernel->channels, channel, &why) < 0)
        log_event(LOG_ERROR, "channel cannot be opened again", "reason", why.text, NULL);
}

void kernel_pump(struct kernel *kernel)
{
    channels_pump(kernel->channels);
}

enum kernel_state kernel_state(const struct kernel *kernel)
{
    return kernel->state;
}

unsigned kernel_generation(const struct kernel *kernel)
{
    return kernel->generation;
}

const char *kernel_detail(const struct kernel *kernel)
{
    return kernel->detail ? kernel->detail : "";
}

json_t *kernel_info(const struct kernel *kernel)
{
    return kernel->info;
}

const struct buffer *kernel_environment(const struct kernel *kernel)
{
    return &kernel->environment;
}
