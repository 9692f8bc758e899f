/* From method and path to a handler. Pure: the table is given, nothing is decoded or checked here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct body_taker;
struct request;

struct route {
    const char *method; /* GET answers HEAD too */
    const char *
        pattern; /* "/sandbox/{id}/execute": {…} stands for one non-empty segment; at most two of them. A last one
                            "{…*}" stands for all the rest, which is not empty and may hold slashes */
    void (*handle)(struct request *request);
    size_t body_limit; /* bytes */
    size_t json_limit; /* the same for Content-Type application/json */
    bool open;         /* needs no API key */
    bool linked;       /* a signed link does instead of the API key (link_access.h) */
    bool by_query;     /* the parameters are in the query: sandbox_id or sandbox_name, file_path */
    const struct body_taker
        *taker; /* takes the body as it comes (request.h); NULL: it is collected in memory */
};

enum route_result {
    ROUTE_FOUND,
    ROUTE_UNKNOWN,
    ROUTE_WRONG_METHOD
};

enum {
    ROUTE_PARAMETERS = 2
};

/* What a {…} stood for, not decoded; text NULL: there was none. */
struct route_parameter {
    const char *text;
    size_t length;
};

struct route_match {
    const struct route *route;
    struct route_parameter parameters[ROUTE_PARAMETERS];
    char allow[48]; /* ROUTE_WRONG_METHOD: what this path can do, as the Allow header has it */
};

/* A pattern without {…} hides those with one: "/sandbox/create" is never a sandbox named "create". */
enum route_result router_match(const struct route *routes, size_t count, const char *method,
                               const char *path, struct route_match *ret);
