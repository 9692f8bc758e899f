/* The HTTP requests of `husk mcp`, all of them at the same time in one thread (libcurl's multi interface).
 *
 * A transfer lives from transfer_start() until its `done` has returned, or until transfer_cancel(), which closes its connection and
 * calls nothing. Callbacks come out of web_work() only. From `message`, `source`, `sink` and `progress` no transfer may be started or
 * cancelled; from `done` any may.
 *
 * Each message has a connection of its own: on one that was used before libcurl repeats by itself a request whose answer did not
 * begin, and code that may have run would run again. */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct failure;
struct transfer;
struct web;

struct transfer_end {
    CURLcode code;    /* CURLE_OK: there is an answer */
    const char *why;  /* there is none: a few words */
    long status;      /* of HTTP */
    const char *body; /* of an answer that was neither events nor for a sink; NUL-terminated */
    size_t length;
    bool json;           /* that is what it says to be */
    const char *session; /* Mcp-Session-Id; NULL: none */
};

struct transfer_order {
    const char *method;
    const char *path;           /* below the URL of the service */
    struct curl_slist *headers; /* stolen */
    const char *body;           /* borrowed until the end; NULL: none … */
    size_t length;
    /* … or this is where it comes from: bytes, 0 at the end, negative to give up. */
    ssize_t (*source)(void *user, char *data, size_t room);
    int64_t total; /* of the source; -1: not known */
    bool form;     /* the source is a file in a form */
    bool (*sink)(void *user, const char *data,
                 size_t length); /* of the body of a 200, which must tell its end; false: give up */
    uint64_t milliseconds;       /* for all of it; 0: no limit */
    void (*message)(void *user, const char *text, size_t length); /* in an event; NULL: unwanted */
    void (*progress)(void *user, uint64_t done, uint64_t total);  /* NULL: unwanted */
    void (*done)(void *user, const struct transfer_end *end);
    void *user;
};

/* `url` NULL: HUSK_URL, or where a service usually is. `api_key` may be NULL. Both are copied. */
int web_new(const char *url, const char *api_key, struct web **ret, struct failure *why);
struct web *web_free(struct web *web); /* cancels what is left; NULL ok, returns NULL */
const char *web_url(const struct web *web);

/* Sleep until one of these descriptors or one of the transfers is ready, or the time is over. */
void web_wait(struct web *web, struct curl_waitfd *others, unsigned count, int milliseconds);
void web_work(struct web *web);
/* While this is on nothing is read from the service. */
void web_hold(struct web *web, bool on);

/* Aborts when memory is out. */
struct transfer *transfer_start(struct web *web, const struct transfer_order *order);
struct transfer *transfer_cancel(struct transfer *transfer); /* NULL ok, returns NULL */
