/* Is the service well? Open to everybody, so it says nothing about anybody's sandboxes. */
#include "base/clock.h"
#include "http/request.h"
#include "http/response.h"
#include "http/routes.h"
#include "husk/version.h"
#include "huskd/config.h"
#include "huskd/pool.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"

static json_int_t count_live(const struct registry *registry)
{
    json_int_t count = 0;
    for (const struct sandbox *s = registry_first(registry); s; s = registry_next(s))
        count += sandbox_live(s);
    return count;
}

void route_health(struct request *request)
{
    const struct service *service = request->service;
    char reasons[SERVICE_REASONS][320];
    unsigned count = service_unhealthy(service, reasons);
    const struct pool *pool = service->pool;
    size_t creating = service->creations.held + service->creations.waiting - pool_making(pool);
    json_t *health = json_pack(
        "{s:s, s:s, s:I, s:{s:I, s:I, s:I, s:I}, s:{s:I, s:I, s:I, s:s?}}", "status",
        count ? "unhealthy" : "healthy", "version", HUSK_VERSION, "uptime_seconds",
        (json_int_t)((now_ms() - service->started_ms) / 1000), "sandboxes", "live",
        count_live(service->registry), "warm", (json_int_t)pool_warm(pool), "creating",
        (json_int_t)creating, "maximum", (json_int_t)service->config->max_sandboxes, "pool", "size",
        (json_int_t)pool->size, "making", (json_int_t)pool_making(pool), "failures",
        (json_int_t)pool->failed, "last_failure", pool->failed ? pool->last_failure : NULL);
    if (count) {
        json_t *list = json_array();
        for (unsigned i = 0; i < count; i++)
            (void)json_array_append_new(list, json_string(reasons[i]));
        (void)json_object_set_new(health, "reasons", list);
    }
    answer_json(request, count ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK, health);
}
