#include "huskd/sandbox_json.h"

#include "base/clock.h"
#include "husk/limits.h"
#include "huskd/caller.h"
#include "huskd/sandbox.h"

static json_t *limits_json(const struct sandbox_limits *limits)
{
    return json_pack("{s:I, s:f, s:I, s:I}", "memory_mb", (json_int_t)(limits->memory_bytes / MIB),
                     "cpus", (double)limits->cpu_millis / 1000, "pids", (json_int_t)limits->pids,
                     "disk_mb", (json_int_t)(limits->disk_bytes / MIB));
}

static json_t *usage_json(const struct sandbox_usage *usage)
{
    if (!usage)
        return json_null();
    return json_pack("{s:I, s:f, s:I, s:I}", "memory_bytes", (json_int_t)usage->memory_bytes,
                     "cpu_seconds", (double)usage->cpu_micros / 1e6, "pids",
                     (json_int_t)usage->pids, "disk_bytes", (json_int_t)usage->disk_bytes);
}

json_t *sandbox_json(const struct sandbox *sandbox, const struct sandbox_usage *usage,
                     const struct caller *reader)
{
    const struct record *record = &sandbox->record;
    char created[TIMESTAMP_SIZE], expires[TIMESTAMP_SIZE];
    format_timestamp(record->created_at, created);
    format_timestamp(record->expires_at, expires);
    return json_pack(
        "{s:s, s:o, s:s*, s:s, s:s, s:s, s:I, s:o, s:o, s:I, s:I, s:I, s:s, s:O?}", /* */
        "sandbox_id", sandbox->text,                                                /* */
        "name", *record->name ? json_string(record->name) : json_null(),            /* */
        "owner", reader->admin ? record->owner : NULL,                              /* */
        "state", sandbox_state_name(sandbox),                                       /* */
        "created_at", created, "expires_at", expires,                               /* */
        "idle_seconds", (json_int_t)record->idle_seconds,                           /* */
        "limits", limits_json(&record->limits),                                     /* */
        "usage", usage_json(usage),                                                 /* */
        "execution_count", (json_int_t)sandbox->execution_count,                    /* */
        "queued", (json_int_t)sandbox->queued,                                      /* */
        "commands", (json_int_t)sandbox->commands,                                  /* */
        "image", "default", "kernel", sandbox->kernel);
}
