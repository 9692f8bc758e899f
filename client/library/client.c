#include "library/client.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/loopback.h"
#include "husk/limits.h"
#include "husk/version.h"
#include "library/complaint.h"

#define DEFAULT_CONNECT_SECONDS 10.0
#define DEFAULT_SECONDS         30.0

const char *husk_version(void)
{
    return HUSK_VERSION;
}

/* --- where it is -------------------------------------------------------------------------------- */

static void free_curl_text(char **text)
{
    curl_free(*text);
}

static void free_curl_url(CURLU **url)
{
    curl_url_cleanup(*url);
}

/* What is wrong with the address, or NULL. */
static const char *url_fault(const char *text, bool *ret_loopback)
{
    static const struct {
        CURLUPart part;
        const char *fault;
    } refused[] = {
        {CURLUPART_USER,
         "has a name or a key in it, which ends up in logs: pass the key as api_key, "
         "or in HUSK_API_KEY"},
        {CURLUPART_PASSWORD,
         "has a password in it, which ends up in logs: pass the key as api_key, "
         "or in HUSK_API_KEY"},
        {CURLUPART_QUERY, "has a query"},
        {CURLUPART_FRAGMENT, "has a fragment"},
    };
    _cleanup_(free_curl_url) CURLU *url = curl_url();
    _cleanup_(free_curl_text) char *host = NULL;
    if (strlen(text) > CLIENT_URL_BYTES)
        return "is too long";
    if (strncasecmp(text, "http://", 7) != 0 && strncasecmp(text, "https://", 8) != 0)
        return "does not begin with http:// or https://";
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return "has spaces or control characters in it";
    }
    if (!url || curl_url_set(url, CURLUPART_URL, text, CURLU_PATH_AS_IS) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK)
        return "is not an address, such as " HUSK_DEFAULT_URL;
    for (size_t i = 0; i < ARRAY_LENGTH(refused); i++) {
        _cleanup_(free_curl_text) char *value = NULL;
        if (curl_url_get(url, refused[i].part, &value, 0) == CURLUE_OK)
            return refused[i].fault;
    }
    *ret_loopback = is_loopback(host);
    return NULL;
}

/* The secret part of an address that is refused must not come back in the sentence. */
static int complain_url(struct husk_error *error, const char *text, const char *fault)
{
    bool secret = strchr(text, '@') != NULL;
    return complain(error, HUSK_ERROR_ARGUMENT, "The address of the service%s%.200s%s %s.",
                    secret ? "" : " (", secret ? "" : text, secret ? "" : ")", fault);
}

/* --- options ------------------------------------------------------------------------------------ */

/* What goes into a header must not end it. */
static bool fits_header(const char *text)
{
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return false;
    }
    return true;
}

static const char *first_of(const char *given, const char *variable, const char *standard)
{
    const char *value = given ? given : getenv(variable);
    return value && (given || *value) ? value : standard;
}

static bool sane_seconds(double seconds)
{
    return isfinite(seconds) && seconds >= 0 && seconds <= MAX_TTL_SECONDS;
}

static int check_options(const struct husk_options *options, const char *key,
                         struct husk_error *error)
{
    if (!fits_header(key))
        return complain(error, HUSK_ERROR_ARGUMENT,
                        "The API key has control characters in it, a line break perhaps.");
    if (options->user_agent && !fits_header(options->user_agent))
        return complain(error, HUSK_ERROR_ARGUMENT, "user_agent has control characters in it.");
    if (!sane_seconds(options->connect_timeout_seconds) || !sane_seconds(options->timeout_seconds))
        return complain(error, HUSK_ERROR_ARGUMENT,
                        "connect_timeout_seconds and timeout_seconds must be seconds, or 0 for "
                        "what is usual.");
    return 0;
}

static int copy_options(struct husk *husk, const struct husk_options *options,
                        struct husk_error *error)
{
    const char *url = first_of(options->url, "HUSK_URL", HUSK_DEFAULT_URL);
    const char *key = first_of(options->api_key, "HUSK_API_KEY", "");
    const char *fault = url_fault(url, &husk->loopback);
    if (fault)
        return complain_url(error, url, fault);
    int r = check_options(options, key, error);
    if (r < 0)
        return r;
    husk->connect_timeout = options->connect_timeout_seconds;
    if (husk->connect_timeout == 0)
        husk->connect_timeout = DEFAULT_CONNECT_SECONDS;
    husk->timeout = options->timeout_seconds;
    if (husk->timeout == 0)
        husk->timeout = DEFAULT_SECONDS;
    size_t length = strlen(url);
    while (length > 0 && url[length - 1] == '/')
        length--;
    husk->url = strndup(url, length);
    husk->api_key = strdup(key);
    husk->ca_file = options->ca_file ? strdup(options->ca_file) : NULL;
    husk->user_agent = strdup(options->user_agent ? options->user_agent : "libhusk/" HUSK_VERSION);
    if (!husk->url || !husk->api_key || !husk->user_agent || (options->ca_file && !husk->ca_file))
        return complain_memory(error);
    return 0;
}

/* --- life --------------------------------------------------------------------------------------- */

static CURLcode global_result;

static void start_curl(void)
{
    global_result = curl_global_init(CURL_GLOBAL_DEFAULT);
}

struct husk *husk_free(struct husk *husk)
{
    if (!husk)
        return NULL;
    if (husk->easy)
        curl_easy_cleanup(husk->easy);
    if (husk->multi)
        (void)curl_multi_cleanup(husk->multi);
    if (husk->wake >= 0)
        close(husk->wake);
    free(husk->url);
    if (husk->api_key)
        explicit_bzero(husk->api_key, strlen(husk->api_key));
    free(husk->api_key);
    free(husk->ca_file);
    free(husk->user_agent);
    free(husk);
    return NULL;
}

static int set_up(struct husk *husk, const struct husk_options *options, struct husk_error *error)
{
    husk->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (husk->wake < 0)
        return complain(error, HUSK_ERROR_MEMORY, "A client needs one descriptor more: %s.",
                        strerror(errno));
    int r = copy_options(husk, options, error);
    if (r < 0)
        return r;
    husk->easy = curl_easy_init();
    husk->multi = curl_multi_init();
    return husk->easy && husk->multi ? 0 : complain_memory(error);
}

int husk_new(const struct husk_options *options, struct husk **ret, struct husk_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static const struct husk_options none;
    (void)pthread_once(&once, start_curl);
    struct husk *husk = global_result == CURLE_OK ? calloc(1, sizeof *husk) : NULL;
    if (!husk)
        return complain_memory(error);
    int r = set_up(husk, options ? options : &none, error);
    if (r < 0)
        (void)husk_free(husk);
    else
        *ret = husk;
    return r;
}

int husk_clone(const struct husk *husk, struct husk **ret, struct husk_error *error)
{
    if (!husk)
        return complain(error, HUSK_ERROR_ARGUMENT, "There is no client to clone: it is NULL.");
    struct husk_options options = {.url = husk->url,
                                   .api_key = husk->api_key,
                                   .ca_file = husk->ca_file,
                                   .connect_timeout_seconds = husk->connect_timeout,
                                   .timeout_seconds = husk->timeout,
                                   .user_agent = husk->user_agent};
    return husk_new(&options, ret, error);
}

const char *husk_url(const struct husk *husk)
{
    return husk->url;
}

void husk_on_progress(struct husk *husk, husk_progress progress, void *user)
{
    husk->progress = progress;
    husk->progress_user = user;
}

/* --- cancelling --------------------------------------------------------------------------------- */

/* The order matters: whoever is woken must see the flag. */
void husk_cancel(struct husk *husk)
{
    int kept = errno;
    atomic_store(&husk->cancelled, true);
    ssize_t written = write(husk->wake, &(uint64_t){1}, sizeof(uint64_t));
    (void)written; /* full: then it wakes already */
    errno = kept;
}

bool client_take_cancel(struct husk *husk)
{
    uint64_t count;
    if (!atomic_exchange(&husk->cancelled, false))
        return false;
    /* A husk_cancel() between its two steps leaves the descriptor readable: one look too many, later. */
    ssize_t got = read(husk->wake, &count, sizeof count);
    (void)got;
    return true;
}

/* The flag is looked at afterwards, by all callers: a husk_cancel() in this moment is not lost. */
void client_settle(struct husk *husk)
{
    uint64_t count;
    if (atomic_load(&husk->cancelled))
        return;
    ssize_t got = read(husk->wake, &count, sizeof count);
    (void)got;
}

int client_wait_for(struct husk *husk, int fd, short events)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = husk->wake, .events = POLLIN}, {.fd = fd, .events = events}};
        if (client_take_cancel(husk))
            return -ECANCELED;
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return -errno;
        if (fds[0].revents)
            client_settle(husk);
        else if (fds[1].revents)
            return 0;
    }
}

bool client_wait(struct husk *husk, int milliseconds)
{
    struct pollfd wake = {.fd = husk->wake, .events = POLLIN};
    if (!atomic_load(&husk->cancelled) && poll(&wake, 1, milliseconds) > 0)
        client_settle(husk);
    return client_take_cancel(husk);
}
