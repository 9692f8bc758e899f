/* Which part of a file a request asks for, and whether it has that already: Range, If-Range, If-None-Match, If-Modified-Since
 * (RFC 9110). Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

enum {
    ETAG_SIZE = 64,
    HTTP_DATE_SIZE = 40
};

/* A file as HTTP knows it. */
struct validators {
    char etag[ETAG_SIZE]; /* strong, with its quotes */
    int64_t modified;     /* Unix seconds */
};

struct validators validators_of(const struct stat *status);
/* "Wed, 18 Nov 2026 07:00:00 GMT" */
void http_date(int64_t seconds, char text[HTTP_DATE_SIZE]);

enum range_result {
    RANGE_WHOLE,    /* no range is asked for, or one of a kind that may be ignored */
    RANGE_PART,     /* `first` … `last` */
    RANGE_OUTSIDE,  /* 416 */
    RANGE_UNCHANGED /* 304 */
};

/* The headers of a request; NULL: not sent. */
struct range_request {
    const char *range, *if_range, *if_none_match, *if_modified_since;
};

enum range_result range_judge(const struct range_request *request,
                              const struct validators *validators, uint64_t size, uint64_t *first,
                              uint64_t *last);
