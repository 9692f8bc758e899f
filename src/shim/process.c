#include "shim/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "husk/limits.h"
#include "shim/leftovers.h"
#include "shim/utf8_mender.h"

enum {
    READ_BYTES = 64 * KIB,
    DRAIN_MILLISECONDS = 500,
    STOP_MILLISECONDS = 2000, /* from SIGTERM to SIGKILL */
    LAST_MILLISECONDS = 5000, /* and from there to giving it up */
};

enum state {
    STATE_STARTING,
    STATE_RUNNING,
    STATE_DRAINING,
};

/* One end of a pipe. */
struct end {
    struct process *process;
    enum text_stream stream;
    int fd; /* -1: closed */
    struct source *source;
    struct utf8_mender mender;
};

struct process {
    struct process_order order;
    enum state state;
    struct end input;
    size_t input_sent;
    struct end outputs[TEXT_STREAMS];
    bool held;
    bool stopped;           /* SIGTERM was sent … */
    bool killed;            /* … and SIGKILL */
    struct process_end end; /* from DRAINING on */
    struct timer *drain_timer;
    struct timer *stop_timer;
};

/* --- pipes ---------------------------------------------------------------------------------- */

static void close_end(struct end *end)
{
    end->source = source_remove(end->source);
    end->fd = close_fd(end->fd);
}

/* Somebody may still hold the other end, unless all were killed. */
static void leave_end(struct process *process, struct end *end)
{
    end->source = source_remove(end->source);
    if (end->fd >= 0 && !process->stopped && process->order.leftovers)
        leftovers_add(process->order.leftovers, TAKE_DESCRIPTOR(end->fd));
    close_end(end);
}

static bool is_drained(const struct process *process)
{
    return process->outputs[STREAM_STDOUT].fd < 0 && process->outputs[STREAM_STDERR].fd < 0;
}

/* Everybody is told, and the process is freed by that. */
static void finish(struct process *process)
{
    struct process_end end = process->end;
    timer_disarm(process->drain_timer);
    timer_disarm(process->stop_timer);
    for (size_t i = 0; i < TEXT_STREAMS; i++) {
        _cleanup_buffer_ struct buffer rest = {0};
        leave_end(process, &process->outputs[i]);
        if (utf8_mender_end(&process->outputs[i].mender, &rest) == 0 && rest.length > 0)
            process->order.events->output(process->order.user, (enum text_stream)i, rest.data,
                                          rest.length);
    }
    if (process->stopped)
        (void)init_link_signal(process->order.init, process->order.name, SIGKILL);
    (void)init_link_forget(process->order.init, process->order.name);
    process->order.events->ended(process->order.user, &end);
}

static void finish_if_over(struct process *process)
{
    if (process->state == STATE_DRAINING && is_drained(process))
        finish(process);
}

static void readable(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct end *end = user;
    struct process *process = end->process;
    char bytes[READ_BYTES];
    _cleanup_buffer_ struct buffer text = {0};
    ssize_t n = read_some(end->fd, bytes, sizeof bytes);
    if (n == -EAGAIN)
        return;
    if (n <= 0) {
        close_end(end);
        return finish_if_over(process);
    }
    if (utf8_mender_feed(&end->mender, bytes, (size_t)n, &text) == 0 && text.length > 0)
        process->order.events->output(process->order.user, end->stream, text.data, text.length);
}

static void writable(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct process *process = user;
    size_t left = process->order.input_length - process->input_sent;
    ssize_t n =
        left > 0 ? write_some(process->input.fd, process->order.input + process->input_sent, left)
                 : 0;
    if (n == -EAGAIN)
        return;
    if (n > 0)
        process->input_sent += (size_t)n;
    /* It has all, or it does not want more. */
    if (n <= 0 || process->input_sent == process->order.input_length)
        close_end(&process->input);
}

static void watch_outputs(struct process *process)
{
    bool reads = process->state != STATE_STARTING && !process->held;
    for (size_t i = 0; i < TEXT_STREAMS; i++) {
        struct end *end = &process->outputs[i];
        if (end->fd < 0)
            continue;
        if (!reads)
            end->source = source_remove(end->source);
        else if (!end->source)
            end->source = source_add(process->order.loop, end->fd, EPOLLIN, readable, end);
    }
}

/* A pipe of which `ours` stays here, without blocking, and the other end is for the process. */
static int make_pipe(int *ours, int *theirs, bool we_write, struct failure *why)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return fail(why, errno, "make a pipe");
    *ours = ends[we_write];
    *theirs = ends[!we_write];
    int r = set_nonblocking(*ours, true);
    return r < 0 ? fail(why, r, "make a pipe") : 0;
}

/* --- its life ------------------------------------------------------------------------------- */

static void drain_expired(struct timer *timer, void *user)
{
    struct process *process = user;
    if (process->held)
        timer_arm(timer, DRAIN_MILLISECONDS); /* it is we who do not listen */
    else
        finish(process);
}

static void begin_draining(struct process *process, struct process_end end)
{
    process->end = end;
    process->state = STATE_DRAINING;
    close_end(&process->input);
    watch_outputs(process);
    /* What is left of one that is being stopped gets SIGKILL first. */
    if (!process->stopped || process->killed)
        timer_arm(process->drain_timer, DRAIN_MILLISECONDS);
    finish_if_over(process);
}

static void stop_expired(struct timer *timer, void *user)
{
    struct process *process = user;
    if (!process->killed) {
        process->killed = true;
        (void)init_link_signal(process->order.init, process->order.name, SIGKILL);
        if (process->state == STATE_DRAINING)
            timer_arm(process->drain_timer, DRAIN_MILLISECONDS);
        else
            timer_arm(timer, LAST_MILLISECONDS);
    } else if (process->state != STATE_DRAINING) {
        process->end = (struct process_end){.kind = PROCESS_LOST};
        finish(process);
    }
}

void process_started(struct process *process, int pid)
{
    if (process->state != STATE_STARTING)
        return;
    process->state = STATE_RUNNING;
    process->order.events->started(process->order.user, pid);
    watch_outputs(process);
}

void process_failed(struct process *process, enum init_step step, int code)
{
    if (process->state == STATE_DRAINING)
        return;
    begin_draining(process,
                   (struct process_end){.kind = PROCESS_FAILED, .value = code, .step = step});
}

void process_exited(struct process *process, int wait_status)
{
    if (process->state == STATE_DRAINING)
        return;
    if (WIFSIGNALED(wait_status))
        begin_draining(process, (struct process_end){.kind = PROCESS_SIGNALLED,
                                                     .value = WTERMSIG(wait_status)});
    else
        begin_draining(process, (struct process_end){.kind = PROCESS_EXITED,
                                                     .value = WEXITSTATUS(wait_status)});
}

void process_hold(struct process *process, bool hold)
{
    if (process->held == hold)
        return;
    process->held = hold;
    watch_outputs(process);
}

void process_stop(struct process *process)
{
    if (process->stopped)
        return;
    process->stopped = true;
    (void)init_link_signal(process->order.init, process->order.name, SIGTERM);
    timer_disarm(process->drain_timer);
    timer_arm(process->stop_timer, STOP_MILLISECONDS);
}

bool process_runs(const struct process *process)
{
    return process->state != STATE_DRAINING;
}

static struct process *process_new(const struct process_order *order)
{
    struct process *process = must_alloc(sizeof *process);
    *process = (struct process){.order = *order, .input.fd = -1};
    for (size_t i = 0; i < TEXT_STREAMS; i++)
        process->outputs[i] =
            (struct end){.process = process, .stream = (enum text_stream)i, .fd = -1};
    process->drain_timer = timer_add(order->loop, drain_expired, process);
    process->stop_timer = timer_add(order->loop, stop_expired, process);
    return process;
}

struct process *process_free(struct process *process)
{
    if (!process)
        return NULL;
    close_end(&process->input);
    for (size_t i = 0; i < TEXT_STREAMS; i++)
        close_end(&process->outputs[i]);
    timer_remove(process->drain_timer);
    timer_remove(process->stop_timer);
    free(process);
    return NULL;
}
DEFINE_CLEANUP(struct process, process_free);

struct process *process_start(const struct process_order *order, struct failure *why)
{
    _cleanup_(process_free_cleanup) struct process *process = process_new(order);
    _cleanup_close_ int in = -1, out = -1, err = -1;
    int r = make_pipe(&process->outputs[STREAM_STDOUT].fd, &out, false, why);
    if (r == 0)
        r = make_pipe(&process->outputs[STREAM_STDERR].fd, &err, false, why);
    if (r == 0 && order->input)
        r = make_pipe(&process->input.fd, &in, true, why);
    if (r < 0)
        return NULL;
    struct init_command command = order->command;
    command.stdio[0] = in >= 0 ? in : order->null_fd;
    command.stdio[1] = out;
    command.stdio[2] = err;
    if (process->input.fd >= 0) {
        process->input.source =
            source_add(order->loop, process->input.fd, EPOLLOUT, writable, process);
        if (!process->input.source) {
            (void)fail(why, errno, "watch a pipe");
            return NULL;
        }
    }
    if (init_link_start(order->init, order->name, &command, why) < 0)
        return NULL;
    return TAKE_POINTER(process);
}
