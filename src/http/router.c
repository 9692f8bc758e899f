#include "http/router.h"

#include <stdio.h>
#include <string.h>

static bool stands_for_rest(const char *pattern)
{
    return strchr(pattern, '}')[-1] == '*';
}

static bool fits(const char *pattern, const char *path, struct route_match *match)
{
    struct route_parameter *parameter = match->parameters;
    while (*pattern && *path) {
        if (*pattern == '{') {
            parameter->text = path;
            parameter->length = stands_for_rest(pattern) ? strlen(path) : strcspn(path, "/");
            if (parameter->length == 0)
                return false;
            path += parameter->length;
            pattern = strchr(pattern, '}') + 1;
            parameter++;
        } else if (*pattern++ != *path++) {
            return false;
        }
    }
    return !*pattern && !*path;
}

static bool method_fits(const char *method, const struct route *route)
{
    return !strcmp(method, route->method) ||
           (!strcmp(method, "HEAD") && !strcmp(route->method, "GET"));
}

static void add_method(struct route_match *match, const char *method)
{
    size_t used = strlen(match->allow);
    (void)snprintf(match->allow + used, sizeof match->allow - used, "%s%s%s", used ? ", " : "",
                   method, strcmp(method, "GET") ? "" : ", HEAD");
}

static bool is_literal(const struct route *route)
{
    return strchr(route->pattern, '{') == NULL;
}

enum route_result router_match(const struct route *routes, size_t count, const char *method,
                               const char *path, struct route_match *ret)
{
    *ret = (struct route_match){0};
    for (int literal = 1; literal >= 0; literal--) {
        for (size_t i = 0; i < count; i++) {
            struct route_match match = {.route = &routes[i]};
            if (is_literal(&routes[i]) != literal || !fits(routes[i].pattern, path, &match))
                continue;
            if (method_fits(method, &routes[i])) {
                *ret = match;
                return ROUTE_FOUND;
            }
            add_method(ret, routes[i].method);
        }
        if (*ret->allow)
            return ROUTE_WRONG_METHOD;
    }
    return ROUTE_UNKNOWN;
}
