#include "http/byte_range.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/text.h"

struct validators validators_of(const struct stat *status)
{
    struct validators validators = {.modified = status->st_mtime};
    /* ctime: code can set any other. */
    (void)snprintf(
        validators.etag, sizeof validators.etag, "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\"",
        (uint64_t)status->st_ino, (uint64_t)status->st_size,
        (uint64_t)status->st_ctim.tv_sec * 1000000000 + (uint64_t)status->st_ctim.tv_nsec);
    return validators;
}

static const char days[] = "SunMonTueWedThuFriSat";
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

/* Not by strftime(), which asks the locale. */
void http_date(int64_t seconds, char text[HTTP_DATE_SIZE])
{
    struct tm tm;
    time_t time = (time_t)seconds;
    if (!gmtime_r(&time, &tm) || tm.tm_year < 0 || tm.tm_year > 8099) {
        text[0] = '\0';
        return;
    }
    (void)snprintf(text, HTTP_DATE_SIZE, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT",
                   days + (ptrdiff_t)3 * (tm.tm_wday % 7), tm.tm_mday % 100,
                   months + (ptrdiff_t)3 * (tm.tm_mon % 12), (tm.tm_year + 1900) % 10000,
                   tm.tm_hour % 100, tm.tm_min % 100, tm.tm_sec % 100);
}

/* Is the tag in a list like `"a", W/"b"`, or is it `*`? */
static bool list_has(const char *list, const char *etag)
{
    for (const char *at = list; *at;) {
        at += strspn(at, " \t,");
        if (*at == '*')
            return true;
        if (!strncmp(at, "W/", 2))
            at += 2;
        size_t length = strcspn(at, ",");
        while (length > 0 && strchr(" \t", at[length - 1]))
            length--;
        if (length == strlen(etag) && !strncmp(at, etag, length))
            return true;
        at += strcspn(at, ",");
    }
    return false;
}

static bool same_date(const char *text, int64_t modified)
{
    char date[HTTP_DATE_SIZE];
    http_date(modified, date);
    return *date && !strcmp(text, date);
}

/* "first-last", "first-", "-count". False: not one of them, or a number that is none. */
static bool parse(const char *text, uint64_t size, uint64_t *first, uint64_t *last)
{
    char number[24];
    const char *dash = strchr(text, '-');
    if (!dash || (size_t)(dash - text) >= sizeof number)
        return false;
    memcpy(number, text, (size_t)(dash - text));
    number[dash - text] = '\0';
    *last = size - 1;
    if (!*number) {
        uint64_t count;
        if (parse_u64(dash + 1, 0, UINT64_MAX, &count) < 0)
            return false;
        *first = count == 0 ? size : count < size ? size - count : 0;
        return true;
    }
    if (parse_u64(number, 0, UINT64_MAX, first) < 0)
        return false;
    uint64_t end = UINT64_MAX;
    if (dash[1] && (parse_u64(dash + 1, 0, UINT64_MAX, &end) < 0 || end < *first))
        return false;
    if (end < *last)
        *last = end;
    return true;
}

enum range_result range_judge(const struct range_request *request,
                              const struct validators *validators, uint64_t size, uint64_t *first,
                              uint64_t *last)
{
    static const char unit[] = "bytes=";
    if (request->if_none_match) {
        if (list_has(request->if_none_match, validators->etag))
            return RANGE_UNCHANGED;
    } else if (request->if_modified_since &&
               same_date(request->if_modified_since, validators->modified)) {
        return RANGE_UNCHANGED;
    }
    if (!request->range || strncasecmp(request->range, unit, strlen(unit)) != 0 ||
        strchr(request->range, ','))
        return RANGE_WHOLE;
    if (request->if_range && strcmp(request->if_range, validators->etag) != 0 &&
        !same_date(request->if_range, validators->modified))
        return RANGE_WHOLE;
    if (!parse(request->range + strlen(unit), size, first, last))
        return RANGE_WHOLE;
    return *first < size ? RANGE_PART : RANGE_OUTSIDE;
}
