/* Making, describing, extending and closing sandboxes. */
#include <stdio.h>
#include <string.h>

#include "http/request.h"
#include "http/response.h"
#include "http/routes.h"
#include "huskd/caller.h"
#include "huskd/config.h"
#include "huskd/create_fields.h"
#include "huskd/json_body.h"
#include "huskd/keeper_client.h"
#include "huskd/packages.h"
#include "huskd/sandbox.h"
#include "huskd/sandbox_json.h"
#include "huskd/service.h"
#include "loop/loop.h"

enum {
    USAGE_MS = 2000 /* then an answer goes out without usage */
};

/* --- create ------------------------------------------------------------------------------------- */

/* A sandbox without the packages that its caller wants is of no use to him. */
static void undo_create(struct request *request, const struct problem *problem)
{
    answer_problem(request, problem);
    sandbox_abandon(request->sandbox);
}

static void furnished(const struct install_result *result, void *user)
{
    struct request *request = user;
    struct problem problem;
    request->install = NULL;
    if (result->problem) {
        answer_problem(request, result->problem); /* it is ending already */
        return;
    }
    if (!result->success) {
        problem_set(&problem, PROBLEM_INSTALL_FAILED, "The sandbox was not made: %s",
                    result->error);
        undo_create(request, &problem);
        return;
    }
    json_t *json = sandbox_json(request->sandbox, NULL, request->caller);
    (void)json_object_set(json, "installed", result->installed);
    answer_json(request, MHD_HTTP_OK, json);
}

static void cancel_furnish(struct request *request)
{
    if (request->install)
        install_cancel(TAKE_POINTER(request->install));
    sandbox_abandon(request->sandbox);
}

/* It is there; now its packages (request->collected). */
static void furnish(struct request *request)
{
    struct problem problem;
    struct install_order order = {.requirements = request->collected};
    struct install_events events = {.done = furnished, .user = request};
    request->install = install_begin(request->sandbox, &order, &events, &problem);
    if (!request->install)
        undo_create(request, &problem);
    else if (request->phase == REQUEST_HANDLING)
        request_wait(request, cancel_furnish);
    else
        request->cancel = cancel_furnish;
}

static void created(struct sandbox *sandbox, const struct problem *problem, void *user)
{
    struct request *request = user;
    if (problem) {
        answer_problem(request, problem);
        return;
    }
    request->sandbox = sandbox;
    memcpy(request->sandbox_text, sandbox->text, sizeof request->sandbox_text);
    if (request->collected)
        furnish(request);
    else
        answer_json(request, MHD_HTTP_OK, sandbox_json(sandbox, NULL, request->caller));
}

static void cancel_create(struct request *request)
{
    sandbox_abandon(request->sandbox);
}

void route_create(struct request *request)
{
    struct problem problem;
    struct record record;
    json_auto_t *body = NULL;
    json_t *env;
    if (!json_body_parse(request->body.data, request->body.length, &body, &problem) ||
        !create_fields_read(body, request->service->config, request->caller, &record, &problem) ||
        !create_fields_env(body, &env, &problem) ||
        !create_fields_packages(body, &request->collected, &problem)) {
        answer_problem(request, &problem);
        return;
    }
    struct sandbox_waiter made = {.callback = created, .user = request};
    request->sandbox = sandbox_create(request->service, &record, env, made, &problem);
    if (!request->sandbox) {
        answer_problem(request, &problem);
        return;
    }
    if (sandbox_live(request->sandbox)) {
        created(request->sandbox, NULL, request);
        return;
    }
    memcpy(request->sandbox_text, request->sandbox->text, sizeof request->sandbox_text);
    request_wait(request, cancel_create);
}

/* --- describe and list -------------------------------------------------------------------------- */

static void cancel_usage(struct request *request)
{
    keeper_client_forget(request->service->keeper, request->tag);
}

static void ask_usage(struct request *request, const struct id *id, keeper_callback callback,
                      timer_callback too_late)
{
    struct keeper_message message = {.type = KEEPER_USAGE};
    if (id)
        memcpy(message.id, id->bytes, sizeof message.id);
    request->tag = keeper_client_ask(request->service->keeper, &message, callback, request);
    request->timer = timer_add(request->service->loop, too_late, request);
    timer_arm(request->timer, USAGE_MS);
    request_wait(request, cancel_usage);
}

/* Found again by its id: it may have ended while the keeper was asked. */
static void describe(struct request *request, const struct sandbox_usage *usage)
{
    struct problem problem;
    struct sandbox *sandbox =
        service_find(request->service, request->caller, request->sandbox_text, &problem);
    if (sandbox)
        answer_json(request, MHD_HTTP_OK, sandbox_json(sandbox, usage, request->caller));
    else
        answer_problem(request, &problem);
}

static void describe_with_usage(const struct keeper_message *message, void *user)
{
    describe(user, message->status == 0 ? &message->usage : NULL);
}

static void describe_without(struct timer *timer _unused_, void *user)
{
    struct request *request = user;
    cancel_usage(request);
    describe(request, NULL);
}

void route_describe(struct request *request)
{
    if (request_find_sandbox(request))
        ask_usage(request, &request->sandbox->id, describe_with_usage, describe_without);
}

static void finish_list(struct request *request)
{
    json_t *list = json_incref(request->collected);
    for (struct sandbox *s = registry_first(request->service->registry); s; s = registry_next(s)) {
        if (sandbox_live(s) && caller_may_see(request->caller, s->owner) &&
            !json_object_get(list, s->text))
            (void)json_object_set_new(list, s->text, sandbox_json(s, NULL, request->caller));
    }
    answer_json(request, MHD_HTTP_OK, list);
}

static void list_with_usage(const struct keeper_message *message, void *user)
{
    struct request *request = user;
    struct id id;
    memcpy(id.bytes, message->id, sizeof id.bytes);
    struct sandbox *sandbox = registry_find_id(request->service->registry, id);
    if (message->status == 0 && sandbox && sandbox_live(sandbox) &&
        caller_may_see(request->caller, sandbox->owner))
        (void)json_object_set_new(request->collected, sandbox->text,
                                  sandbox_json(sandbox, &message->usage, request->caller));
    if (!(message->flags & KEEPER_MORE))
        finish_list(request);
}

static void list_without(struct timer *timer _unused_, void *user)
{
    struct request *request = user;
    cancel_usage(request);
    finish_list(request);
}

void route_list(struct request *request)
{
    request->collected = json_object();
    if (registry_count(request->service->registry) == 0)
        finish_list(request);
    else
        ask_usage(request, NULL, list_with_usage, list_without);
}

/* --- extend and close --------------------------------------------------------------------------- */

void route_extend(struct request *request)
{
    struct problem problem;
    json_auto_t *body = NULL;
    uint64_t seconds = 0;
    struct number_range range = {MIN_TTL_SECONDS,
                                 (double)request->service->config->ttl_seconds.maximum};
    if (!request_find_sandbox(request))
        return;
    bool good = json_body_parse(request->body.data, request->body.length, &body, &problem) &&
                json_body_whole(body, "ttl_seconds", range, &seconds, &problem);
    if (good && seconds == 0) {
        problem_set(&problem, PROBLEM_INVALID_FIELD,
                    "ttl_seconds is missing: how long the sandbox shall live from now.");
        good = false;
    }
    if (!good) {
        answer_problem(request, &problem);
        return;
    }
    sandbox_extend(request->sandbox, seconds);
    answer_json(request, MHD_HTTP_OK, sandbox_json(request->sandbox, NULL, request->caller));
}

static void closed(struct sandbox *sandbox _unused_, const struct problem *problem, void *user)
{
    struct request *request = user;
    if (problem)
        answer_problem(request, problem);
    else
        answer_json(request, MHD_HTTP_OK,
                    json_pack("{s:s, s:s}", "status", "success", "message", "Sandbox closed"));
}

static void cancel_close(struct request *request)
{
    sandbox_forget_close(request->sandbox);
}

void route_close(struct request *request)
{
    struct problem problem;
    if (!request_find_sandbox(request))
        return;
    problem_set(&problem, PROBLEM_SANDBOX_CLOSED, "The sandbox was closed.");
    request_wait(request, cancel_close);
    sandbox_close(
        request->sandbox, ENDED_CLOSED, &problem,
        (struct sandbox_waiter){.callback = closed, .user = request, .by = request->caller});
}
