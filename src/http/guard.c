#include "http/guard.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/text.h"
#include "huskd/config.h"
#include "huskd/keyring.h"
#include "huskd/problem.h"

enum {
    MOST_ENTRIES = 64
};

/* Words of a comma-separated setting. */
struct words {
    char *text;
    const char *entries[MOST_ENTRIES];
    size_t count;
    bool any; /* "*" is one of them */
};

struct guard {
    struct words hosts;
    struct words origins;
    char *listen_host;
    bool tls;
    const struct keyring *keyring;
};

static void split_words(struct words *words, const char *text)
{
    char *rest = words->text = must_copy(text);
    for (char *word; words->count < MOST_ENTRIES && (word = strtok_r(rest, ", \t", &rest));) {
        words->any = words->any || !strcmp(word, "*");
        words->entries[words->count++] = word;
    }
}

static bool contains(const struct words *words, const char *text, size_t length)
{
    for (size_t i = 0; i < words->count; i++) {
        if (strlen(words->entries[i]) == length && !strncasecmp(words->entries[i], text, length))
            return true;
    }
    return false;
}

struct guard *guard_new(const struct config *config, const char *listen_host,
                        const struct keyring *keyring)
{
    struct guard *guard = must_alloc(sizeof *guard);
    split_words(&guard->hosts, config->allowed_hosts);
    split_words(&guard->origins, config->cors_origins);
    guard->listen_host = must_copy(listen_host);
    guard->keyring = keyring;
    guard->tls = *config->tls_cert != '\0';
    return guard;
}

struct guard *guard_free(struct guard *guard)
{
    if (!guard)
        return NULL;
    free(guard->hosts.text);
    free(guard->origins.text);
    free(guard->listen_host);
    free(guard);
    return NULL;
}

/* "name", "name:80", "[::1]:80" → the name, without brackets. Its length; 0: this is no host. */
static size_t host_of(const char *text, const char **name)
{
    *name = text;
    size_t length = strcspn(text, ":");
    if (*text == '[') {
        *name = text + 1;
        length = strcspn(*name, "]");
        if ((*name)[length] != ']')
            return 0;
        text = *name + length + 1;
    } else {
        text += length;
    }
    if (*text == ':' && strspn(text + 1, "0123456789") != strlen(text + 1))
        return 0;
    return *text == ':' || *text == '\0' ? length : 0;
}

static bool host_allowed(const struct guard *guard, const char *text)
{
    static const char *const loopback[] = {"localhost", "127.0.0.1", "::1"};
    const char *name;
    size_t length = host_of(text, &name);
    if (length == 0)
        return false;
    for (size_t i = 0; i < ARRAY_LENGTH(loopback); i++) {
        if (strlen(loopback[i]) == length && !strncasecmp(loopback[i], name, length))
            return true;
    }
    if (strlen(guard->listen_host) == length && !strncasecmp(guard->listen_host, name, length) &&
        strcmp(guard->listen_host, "0.0.0.0") != 0 && strcmp(guard->listen_host, "::") != 0)
        return true;
    return guard->hosts.any || contains(&guard->hosts, name, length);
}

bool guard_shares_with(const struct guard *guard, const char *origin)
{
    return guard->origins.any || contains(&guard->origins, origin, strlen(origin));
}

static bool origin_allowed(const struct guard *guard, const char *origin)
{
    static const char *const schemes[] = {"https://", "http://"};
    if (guard_shares_with(guard, origin))
        return true;
    /* Where we speak TLS a page that came without it may be anybody's. */
    for (size_t i = 0; i < (guard->tls ? 1 : ARRAY_LENGTH(schemes)); i++) {
        if (starts_with(origin, schemes[i]))
            return host_allowed(guard, origin + strlen(schemes[i]));
    }
    return false;
}

bool guard_admits(const struct guard *guard, const struct credentials *credentials,
                  struct problem *problem)
{
    if (!credentials->host) {
        problem_set(problem, PROBLEM_MALFORMED_REQUEST, "The request has no Host header.");
        return false;
    }
    if (!host_allowed(guard, credentials->host)) {
        problem_set(
            problem, PROBLEM_HOST_NOT_ALLOWED,
            "The Host header must name this server: localhost, or a name in allowed_hosts of "
            "the [server] section of husk.conf.");
        return false;
    }
    if (credentials->origin && !origin_allowed(guard, credentials->origin)) {
        problem_set(problem, PROBLEM_ORIGIN_NOT_ALLOWED,
                    "Pages of this origin may not call: it is not in cors_origins of the [server] "
                    "section of husk.conf.");
        return false;
    }
    return true;
}

static const char *bearer_token(const char *authorization)
{
    static const char scheme[] = "Bearer ";
    if (!authorization || strncasecmp(authorization, scheme, strlen(scheme)) != 0)
        return NULL;
    return authorization + strspn(authorization + strlen(scheme), " ") + strlen(scheme);
}

struct caller *guard_caller(const struct guard *guard, const struct credentials *credentials,
                            struct problem *problem)
{
    const char *given = bearer_token(credentials->authorization);
    if (!given)
        given = credentials->api_key;
    struct caller *caller = keyring_find(guard->keyring, given ? given : "");
    if (!caller)
        problem_set(problem, PROBLEM_UNAUTHORIZED,
                    "%s Send the API key as 'Authorization: Bearer …' or 'X-API-Key: …'.",
                    given ? "The API key is wrong." : "This needs an API key.");
    return caller;
}
