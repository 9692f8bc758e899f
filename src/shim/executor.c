#include "shim/executor.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "husk/limits.h"
#include "shim/execution.h"
#include "shim/kept_results.h"
#include "shim/oom.h"

enum {
    REPLY_GRACE_MILLISECONDS = 2000,
    IDLE_GRACE_MILLISECONDS = 1000,
    PROBE_MILLISECONDS = 100, /* between two probes */
    MAX_PROBES = 50,
    SETTLE_MILLISECONDS = 1000,
    STOP_STEP_MILLISECONDS = 2000, /* from one means to the next, stronger one */
};

enum phase {
    PHASE_NOTHING, /* nothing runs */
    PHASE_SETTLING,
    PHASE_RUNNING,
    PHASE_AWAITING_REPLY,
    PHASE_AWAITING_IDLE,
    PHASE_PROBING,
};

struct executor {
    struct executor_setup setup;
    enum phase phase;
    struct timer *phase_timer;
    struct execution *running; /* NULL in the first two phases, never in the others */
    struct execution *first;   /* of those that wait */
    struct execution **last;
    size_t queued;
    struct kept_results *kept; /* of detached ones */
    struct timer *stop_timer;
    bool signalled;       /* the second means was used */
    bool holding;         /* the kernel's output */
    uint64_t interrupt;   /* number of an interrupt_request that has no reply yet; 0: none */
    uint64_t first_probe; /* number */
    unsigned probes;
    uint64_t late_messages;
    int64_t count;
    bool state_was_lost; /* between two executions, and nobody was told */
};

static void advance(struct executor *executor);

static void set_phase(struct executor *executor, enum phase phase)
{
    static const unsigned milliseconds[] = {
        [PHASE_SETTLING] = SETTLE_MILLISECONDS,
        [PHASE_AWAITING_REPLY] = REPLY_GRACE_MILLISECONDS,
        [PHASE_AWAITING_IDLE] = IDLE_GRACE_MILLISECONDS,
        [PHASE_PROBING] = PROBE_MILLISECONDS,
    };
    husk_assert((phase >= PHASE_RUNNING) == (executor->running != NULL));
    executor->phase = phase;
    if (phase < ARRAY_LENGTH(milliseconds) && milliseconds[phase])
        timer_arm(executor->phase_timer, milliseconds[phase]);
    else
        timer_disarm(executor->phase_timer);
}

/* --- the end of an execution ---------------------------------------------------------------- */

static void deliver(struct executor *executor, struct execution *execution,
                    const struct verdict *verdict)
{
    if (execution->stream)
        return execution_end_stream(execution, verdict);
    _cleanup_buffer_ struct buffer payload =
        BUFFER_LIMITED(sizeof(struct shim_result_head) + MAX_ANSWER_BYTES);
    execution_render(execution, verdict, &payload);
    /* Its output may be large and is there twice now. */
    execution->outputs = outputs_free(execution->outputs);
    execution->answer = answer_free(execution->answer);
    execution->tool = tool_answer_free(execution->tool);
    if (*execution->id)
        kept_results_add(executor->kept, execution->id, NULL, &payload);
    else
        executor->setup.sink->result(executor->setup.user, execution->ticket, &payload);
}

static void answer_question(struct executor *executor, const struct execution *execution,
                            enum ending ending, const char *detail)
{
    char text[VERDICT_TEXT_SIZE];
    _cleanup_buffer_ struct buffer payload = {0};
    const char *code = execution_answer_question(execution, ending, detail, &payload, text);
    if (code)
        executor->setup.sink->rejected(executor->setup.user, execution->ticket, code, text);
    else
        executor->setup.sink->result(executor->setup.user, execution->ticket, &payload);
}

/* Tell everybody concerned. Frees the execution. */
static void conclude(struct executor *executor, struct execution *execution, enum ending ending,
                     const char *detail)
{
    char text[VERDICT_TEXT_SIZE];
    if (execution->question) {
        answer_question(executor, execution, ending, detail);
    } else {
        struct verdict verdict = execution_judge(execution, ending, detail, text);
        deliver(executor, execution, &verdict);
    }
    for (size_t i = 0; i < execution->interrupt_count; i++)
        executor->setup.sink->interrupted(executor->setup.user, execution->interrupts[i], 0);
    execution_free(execution);
}

/* The running one is over. The next one starts, and the state is told, before the result is: whoever gets
 * the result finds everything up to date. */
static void finish(struct executor *executor, enum ending ending, const char *detail)
{
    struct execution *execution = TAKE_POINTER(executor->running);
    timer_disarm(executor->stop_timer);
    if (executor->holding)
        outputs_mark_truncated(execution->outputs); /* there was more, which is lost now */
    execution_collect_files(execution, executor->setup.changes);
    if (execution->question)
        executor->state_was_lost |= ending_loses_state(ending); /* whoever runs code is told, too */
    else if (outputs_execution_count(execution->outputs) >= 0)
        executor->count = outputs_execution_count(execution->outputs);
    set_phase(executor, executor->interrupt ? PHASE_SETTLING : PHASE_NOTHING);
    executor_stream_changed(executor);
    if (ending_replaces_kernel(ending)) {
        log_event(LOG_INFO, "kernel is replaced", "reason",
                  ending == ENDING_UNSTOPPABLE ? "it did not stop" : "it did not answer", NULL);
        kernel_replace(executor->setup.kernel);
    }
    advance(executor);
    executor->setup.sink->changed(executor->setup.user);
    conclude(executor, execution, ending, detail);
}

/* --- the queue ------------------------------------------------------------------------------ */

static struct execution *pop(struct executor *executor)
{
    struct execution *execution = executor->first;
    executor->first = execution->next;
    if (!executor->first)
        executor->last = &executor->first;
    executor->queued--;
    return execution;
}

/* Take a waiting execution out of the queue and end it. */
static void end_waiting(struct executor *executor, struct execution *execution, enum ending ending,
                        const char *detail)
{
    struct execution **link = &executor->first;
    while (*link != execution)
        link = &(*link)->next;
    *link = execution->next;
    if (executor->last == &execution->next)
        executor->last = link;
    executor->queued--;
    execution_collect_files(execution, executor->setup.changes);
    executor->setup.sink->changed(executor->setup.user);
    conclude(executor, execution, ending, detail);
}

/* Start the next one, if it can start. */
static void advance(struct executor *executor)
{
    struct kernel *kernel = executor->setup.kernel;
    if (executor->phase != PHASE_NOTHING || !executor->first ||
        kernel_state(kernel) != KERNEL_READY)
        return;
    struct execution *execution = pop(executor);
    executor->running = execution;
    executor->signalled = false;
    execution->oom_kills = oom_kills(executor->setup.oom_fd);
    execution->started_at = now_ms();
    if (!execution->question) {
        execution->began = home_changes_mark(executor->setup.changes);
        execution->state_was_lost = executor->state_was_lost;
        executor->state_was_lost = false;
    }
    set_phase(executor, PHASE_RUNNING);
    json_auto_t *request = execution_request(execution);
    json_auto_t *metadata = execution_metadata(execution);
    struct message_body body = {
        .type = execution_request_type(execution), .content = request, .metadata = metadata};
    int r = kernel_send(kernel, CHANNEL_SHELL, &body, &execution->number);
    /* The kernel has it, or nobody: four megabytes of code need not be kept. */
    json_decref(TAKE_POINTER(execution->code));
    if (execution->stream)
        event_stream_put(execution->stream, "start",
                         json_pack("{s:b}", "state_lost", execution->state_was_lost));
    if (r < 0) {
        finish(executor, ENDING_UNREACHABLE, NULL);
        return;
    }
    outputs_expect_count(execution->outputs, executor->count + 1);
    executor->setup.sink->changed(executor->setup.user);
}

/* --- stopping ------------------------------------------------------------------------------- */

static void begin_probing(struct executor *executor);

static void stop(struct executor *executor, enum stop_reason reason)
{
    struct execution *execution = executor->running;
    bool held = executor->holding;
    if (execution->stream)
        event_stream_hurry(execution->stream);
    if (execution->replied) {
        /* The code has ended. Only output can still be on its way, and not for ever: what was held has a last second. */
        execution->overdue |= reason == STOP_TIMEOUT;
        if (executor->phase == PHASE_AWAITING_IDLE && execution->overdue && !held)
            begin_probing(executor);
        return;
    }
    if (execution->stop != STOP_NONE)
        return;
    execution->stop = reason;
    if (kernel_ask(executor->setup.kernel, CHANNEL_CONTROL, "interrupt_request",
                   &executor->interrupt) < 0)
        executor->interrupt = 0;
    timer_arm(executor->stop_timer, STOP_STEP_MILLISECONDS);
}

static void stop_expired(struct timer *timer, void *user)
{
    struct executor *executor = user;
    if (executor->signalled)
        return finish(executor, ENDING_UNSTOPPABLE, NULL);
    executor->signalled = true;
    kernel_signal(executor->setup.kernel, SIGINT);
    timer_arm(timer, STOP_STEP_MILLISECONDS);
}

static struct execution *find_waiting(struct executor *executor, const struct timer *deadline)
{
    struct execution *execution = executor->first;
    while (execution && execution->deadline != deadline)
        execution = execution->next;
    return execution;
}

static void deadline_expired(struct timer *timer, void *user)
{
    struct executor *executor = user;
    if (executor->running && executor->running->deadline == timer)
        return stop(executor, STOP_TIMEOUT);
    struct execution *waiting = find_waiting(executor, timer);
    waiting->stop = STOP_TIMEOUT;
    end_waiting(executor, waiting, ENDING_NOT_RUN, NULL);
}

static void progress_expired(struct timer *timer, void *user)
{
    struct executor *executor = user;
    const struct execution *execution = executor->running;
    if (!execution || execution->progress != timer) {
        execution = executor->first;
        while (execution->progress != timer)
            execution = execution->next;
    }
    _cleanup_buffer_ struct buffer payload = {0};
    execution_tell_progress(execution, &payload);
    executor->setup.sink->progress(executor->setup.user, execution->ticket, &payload);
    timer_arm(timer, PROGRESS_MILLISECONDS);
}

/* --- missing messages ----------------------------------------------------------------------- */

static void send_probe(struct executor *executor)
{
    uint64_t number;
    executor->probes++;
    if (kernel_ask(executor->setup.kernel, CHANNEL_SHELL, "kernel_info_request", &number) == 0 &&
        executor->first_probe == 0)
        executor->first_probe = number;
    set_phase(executor, PHASE_PROBING);
}

/* Perhaps a frame was too large and libzmq gave the connection up; perhaps the kernel dropped messages. A
 * fresh connection helps against the first, and loses nothing after the second. */
static void begin_probing(struct executor *executor)
{
    kernel_reopen(executor->setup.kernel, CHANNEL_IOPUB);
    executor->first_probe = 0;
    executor->probes = 0;
    send_probe(executor);
}

static void phase_expired(struct timer *timer _unused_, void *user)
{
    struct executor *executor = user;
    switch (executor->phase) {
    case PHASE_SETTLING:
        executor->interrupt = 0;
        set_phase(executor, PHASE_NOTHING);
        return advance(executor);
    case PHASE_AWAITING_REPLY:
        kernel_reopen(executor->setup.kernel, CHANNEL_SHELL);
        return begin_probing(executor); /* anybody who has the key can say "idle" */
    case PHASE_AWAITING_IDLE:
        if (executor->holding)
            return set_phase(executor, PHASE_AWAITING_IDLE); /* it is we who do not listen */
        return begin_probing(executor);
    case PHASE_PROBING:
        if (executor->probes >= MAX_PROBES)
            return finish(executor, ENDING_SILENT, NULL);
        return send_probe(executor);
    case PHASE_NOTHING:
    case PHASE_RUNNING:
        return;
    }
}

/* --- messages ------------------------------------------------------------------------------- */

static bool says_idle(const struct message *message)
{
    const char *state = json_string_value(json_object_get(message->content, "execution_state"));
    return strcmp(message->type, "status") == 0 && state && strcmp(state, "idle") == 0;
}

/* Reply or idle has come. */
static void review(struct executor *executor)
{
    const struct execution *execution = executor->running;
    timer_disarm(executor->stop_timer);
    if (execution->replied && execution->idle)
        finish(executor, ENDING_COMPLETE, NULL);
    else if (executor->phase != PHASE_PROBING)
        set_phase(executor, execution->idle ? PHASE_AWAITING_REPLY : PHASE_AWAITING_IDLE);
}

static void take_own(struct executor *executor, enum channel channel, const struct message *message)
{
    struct execution *execution = executor->running;
    bool replied = execution->replied;
    if (channel == CHANNEL_SHELL && execution_take_reply(execution, message)) {
        if (!replied)
            review(executor);
    } else if (channel == CHANNEL_IOPUB && says_idle(message)) {
        if (execution->idle)
            return; /* who says it again and again does not get more time for the reply */
        execution->idle = true;
        review(executor);
    } else if (channel == CHANNEL_STDIN && strcmp(message->type, "input_request") == 0) {
        input_request(&execution->input, message, executor->setup.kernel, execution->stream);
    } else if (channel == CHANNEL_IOPUB && strcmp(message->type, "husk_input") == 0) {
        input_note(&execution->input, executor->setup.kernel, execution->stream);
    } else if (channel == CHANNEL_IOPUB) {
        if (executor->phase == PHASE_AWAITING_IDLE && !execution->overdue)
            set_phase(executor, PHASE_AWAITING_IDLE); /* not silent yet */
        if (!execution->question)
            outputs_add(execution->outputs, message->type, message->content);
    }
}

/* Output of threads and processes that live longer than their execution. It belongs to no answer that could still be
 * given; code can produce any amount of it, so log ever more rarely. */
static void drop_late(struct executor *executor, const struct message *message)
{
    uint64_t dropped = ++executor->late_messages;
    if ((dropped & (dropped - 1)) == 0)
        log_event(LOG_INFO, "output came after the end of its execution, and is dropped", "type",
                  message->type, "so_far", log_number((int64_t)dropped), NULL);
}

void executor_message(struct executor *executor, enum channel channel,
                      const struct message *message, uint64_t number)
{
    if (number == 0)
        return;
    if (executor->running && number == executor->running->number) {
        take_own(executor, channel, message);
    } else if (executor->phase == PHASE_PROBING && executor->first_probe &&
               number >= executor->first_probe && channel == CHANNEL_IOPUB && says_idle(message)) {
        finish(executor, executor->running->replied ? ENDING_NO_IDLE : ENDING_NO_REPLY, NULL);
    } else if (number == executor->interrupt && channel == CHANNEL_CONTROL) {
        executor->interrupt = 0;
        if (executor->phase == PHASE_SETTLING) {
            set_phase(executor, PHASE_NOTHING);
            advance(executor);
        }
    } else if (channel == CHANNEL_IOPUB && strcmp(message->type, "status") != 0) {
        drop_late(executor, message);
    }
}

void executor_stream_changed(struct executor *executor)
{
    const struct execution *running = executor->running;
    bool hold = running && running->stream && event_stream_full(running->stream);
    if (hold == executor->holding)
        return;
    executor->holding = hold;
    kernel_hold_output(executor->setup.kernel, hold);
}

void executor_damaged(struct executor *executor)
{
    if (executor->running)
        outputs_mark_truncated(executor->running->outputs);
}

/* --- the kernel ----------------------------------------------------------------------------- */

void executor_kernel_ready(struct executor *executor)
{
    executor->count = 0;
    executor->interrupt = 0;
    if (executor->phase == PHASE_SETTLING)
        set_phase(executor, PHASE_NOTHING);
    executor->setup.sink->changed(executor->setup.user);
    advance(executor);
}

void executor_kernel_lost(struct executor *executor, const char *how)
{
    if (!executor->running) {
        executor->state_was_lost = true;
        return;
    }
    bool out_of_memory = oom_kills(executor->setup.oom_fd) > executor->running->oom_kills;
    finish(executor, out_of_memory ? ENDING_OUT_OF_MEMORY : ENDING_DIED, how);
}

void executor_kernel_given_up(struct executor *executor, const char *detail)
{
    while (executor->first)
        end_waiting(executor, executor->first, ENDING_NO_KERNEL, detail);
}

void executor_end_all(struct executor *executor)
{
    while (executor->first)
        end_waiting(executor, executor->first, ENDING_RESTARTED, NULL);
    if (executor->running)
        finish(executor, ENDING_RESTARTED, NULL);
    executor->state_was_lost = false;
}

/* --- for the owner -------------------------------------------------------------------------- */

struct executor *executor_new(const struct executor_setup *setup)
{
    struct executor *executor = must_alloc(sizeof *executor);
    *executor = (struct executor){.setup = *setup};
    executor->last = &executor->first;
    executor->kept = kept_results_new();
    executor->phase_timer = timer_add(setup->loop, phase_expired, executor);
    executor->stop_timer = timer_add(setup->loop, stop_expired, executor);
    return executor;
}

struct executor *executor_free(struct executor *executor)
{
    if (!executor)
        return NULL;
    execution_free(executor->running);
    while (executor->first)
        execution_free(pop(executor));
    kept_results_free(executor->kept);
    timer_remove(executor->phase_timer);
    timer_remove(executor->stop_timer);
    free(executor);
    return NULL;
}

/* Does any run or wait? */
static bool has_code(const struct executor *executor)
{
    const struct execution *execution = executor->first;
    while (execution && execution->question)
        execution = execution->next;
    return execution || executor_busy(executor);
}

int executor_submit(struct executor *executor, const struct order *order)
{
    enum kernel_state state = kernel_state(executor->setup.kernel);
    if (state == KERNEL_NEW || state == KERNEL_DEAD)
        return -ENOTCONN;
    if (order->question && (state != KERNEL_READY || has_code(executor)))
        return -EBUSY;
    if (executor->queued == MAX_QUEUED_EXECUTIONS)
        return -ENOSPC;
    struct event_stream *stream = NULL;
    if (order->streams) {
        stream = event_stream_open(executor->setup.streams, order->ticket, order->format);
        if (!stream)
            return -ENOSPC;
    }
    struct execution *execution = execution_new(order, stream);
    execution->deadline = timer_add(executor->setup.loop, deadline_expired, executor);
    timer_arm(execution->deadline, order->timeout_ms);
    if (order->tool.progress) {
        execution->progress = timer_add(executor->setup.loop, progress_expired, executor);
        timer_arm(execution->progress, PROGRESS_MILLISECONDS);
    }
    size_t ahead = executor->queued + (executor->running != NULL);
    *executor->last = execution;
    executor->last = &execution->next;
    executor->queued++;
    /* A stream says something at once: its client then knows that it was accepted. */
    if (stream && (ahead > 0 || state != KERNEL_READY))
        event_stream_put(stream, "queued", json_pack("{s:I}", "ahead", (json_int_t)ahead));
    advance(executor);
    executor->setup.sink->changed(executor->setup.user);
    return 0;
}

static struct execution *find_detached(const struct executor *executor, const char *execution_id)
{
    if (executor->running && strcmp(executor->running->id, execution_id) == 0)
        return executor->running;
    struct execution *execution = executor->first;
    while (execution && strcmp(execution->id, execution_id) != 0)
        execution = execution->next;
    return execution;
}

int executor_fetch(struct executor *executor, const char *execution_id, struct buffer *ret_payload)
{
    const struct buffer *kept = kept_results_find(executor->kept, execution_id);
    if (kept)
        return buffer_append(ret_payload, kept->data, kept->length);
    struct execution *execution = *execution_id ? find_detached(executor, execution_id) : NULL;
    if (!execution)
        return -ENOENT;
    struct verdict verdict = execution_progress(execution);
    execution_render(execution, &verdict, ret_payload);
    return 0;
}

int executor_input(struct executor *executor, json_t *value)
{
    if (!executor->running)
        return -ENOENT;
    return input_answer(&executor->running->input, value, executor->setup.kernel);
}

void executor_cancel(struct executor *executor, struct ticket ticket)
{
    if (executor->running && same_ticket(executor->running->ticket, ticket))
        return stop(executor, STOP_INTERRUPT);
    for (struct execution *execution = executor->first; execution; execution = execution->next) {
        if (!same_ticket(execution->ticket, ticket))
            continue;
        execution->stop = STOP_INTERRUPT;
        return end_waiting(executor, execution, ENDING_NOT_RUN, NULL);
    }
}

void executor_interrupt(struct executor *executor, struct ticket ticket)
{
    struct execution *running = executor->running;
    int status = 0;
    if (running && running->interrupt_count < MAX_WAITING_REQUESTS) {
        running->interrupts[running->interrupt_count++] = ticket;
        return stop(executor, STOP_INTERRUPT);
    }
    if (running)
        status = -EBUSY;
    executor->setup.sink->interrupted(executor->setup.user, ticket, status);
}

bool executor_busy(const struct executor *executor)
{
    return executor->running && !executor->running->question;
}

size_t executor_queued(const struct executor *executor)
{
    return executor->queued;
}

int64_t executor_count(const struct executor *executor)
{
    return executor->count;
}
