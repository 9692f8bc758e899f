/* The request line and the headers that Husk itself reads: method, target, Host, Origin, Range and its relatives, Content-Type;
 * one a line. */
#include "fuzz.h"

#include "http/byte_range.h"
#include "http/guard.h"
#include "http/multipart.h"
#include "http/router.h"
#include "http/routes.h"
#include "huskd/caller.h"
#include "huskd/config.h"
#include "huskd/file_path.h"
#include "huskd/keyring.h"
#include "huskd/problem.h"
#include "huskd/uri.h"

static void try_target(const char *method, char *target)
{
    char out[MAX_FILE_PATH_BYTES + 1];
    char *query = strchr(target, '?');
    if (query)
        *query++ = '\0';
    struct route_match match;
    if (router_match(routes, routes_count, method, target, &match) == ROUTE_FOUND) {
        for (size_t i = 0; i < ROUTE_PARAMETERS; i++) {
            const struct route_parameter *part = &match.parameters[i];
            int r = part->text ? uri_decode(part->text, part->length, out, sizeof out) : 0;
            check(r < 0 || !part->text || strlen(out) == (size_t)r);
        }
    }
    static const char *const keys[] = {"timeout", "file_path", "sandbox_id", "path"};
    for (size_t i = 0; i < ARRAY_LENGTH(keys); i++) {
        int r = uri_query(query, keys[i], out, sizeof out);
        check(r <= 1);
    }
}

static void try_range(struct input *input)
{
    _cleanup_free_ char *range = next_header(input), *if_range = next_header(input);
    _cleanup_free_ char *none = next_header(input), *since = next_header(input);
    const struct range_request request = {range, if_range, none, since};
    const struct validators known = {.etag = "\"1-2-3\"", .modified = 1795000000};
    static const uint64_t sizes[] = {0, 1, 1000, UINT64_MAX};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        uint64_t first = 0, last = 0;
        if (range_judge(&request, &known, sizes[i], &first, &last) == RANGE_PART)
            check(first <= last && last < sizes[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct guard *guard;
    if (!guard) {
        static struct config config;
        config_defaults(&config);
        struct keyring *keyring = NULL;
        check(keyring_new(&config, callers_new(), &keyring, NULL) == 0);
        guard = guard_new(&config, "127.0.0.1", keyring);
    }
    struct input input = {(const char *)data, size};
    _cleanup_free_ char *method = next_line(&input), *target = next_line(&input);
    _cleanup_free_ char *host = next_header(&input), *origin = next_header(&input);
    struct problem problem;
    const struct credentials credentials = {.host = host, .origin = origin};
    bool admitted = guard_admits(guard, &credentials, &problem);
    check(!admitted || (host && !strchr(host, '/') && !strchr(host, '@')));
    try_target(method, target);
    try_range(&input);
    _cleanup_free_ char *type = next_line(&input);
    char boundary[MULTIPART_BOUNDARY_SIZE];
    if (multipart_boundary(type, boundary) == 0)
        check(*boundary && strlen(boundary) < sizeof boundary);
    return 0;
}
