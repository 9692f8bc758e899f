/* husk-fetcher IMAGE CACHE MOUNT-POINT LOG-LEVEL LOG-FORMAT: started by the keeper for one job, with the descriptors of enum
 * fetch_descriptor, as P's root in new mount, pid, ipc and uts namespaces. The one process of Husk that uses the network. It gives up everything else before
 * it reads its job. */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "base/frame.h"
#include "base/json_memory.h"
#include "base/log.h"
#include "base/text.h"
#include "fetcher/job.h"
#include "fetcher/tree.h"
#include "husk/fetch_protocol.h"
#include "husk/limits.h"

#if defined(__SANITIZE_ADDRESS__)
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0"; /* it lives for one job */
}
#endif

static struct frame_stream stream;

static void wait_for(short events)
{
    struct pollfd watched = {.fd = FETCH_SOCKET_FD, .events = events};
    while (poll(&watched, 1, -1) < 0 && errno == EINTR)
        ;
}

static void say(enum fetch_type type, const char *text, size_t length)
{
    int r = frame_send(&stream, (uint16_t)type, 0, text, length);
    while (r == 0 && frame_wants_write(&stream)) {
        wait_for(POLLOUT);
        r = frame_flush(&stream);
    }
    /* If nobody wants it any more, the next program that is started, if any, finds that out. */
}

static void tell(const char *line)
{
    say(FETCH_PROGRESS, line, strlen(line));
}

static json_t *read_order(void)
{
    struct frame_header header;
    const char *payload;
    int r;
    while ((r = frame_next(&stream, &header, &payload, NULL)) == 0) {
        wait_for(POLLIN);
        r = frame_fill(&stream);
        if (r < 0 && r != -EAGAIN)
            return NULL;
    }
    return r > 0 && header.type == FETCH_JOB ? json_loadb(payload, header.length, 0, NULL) : NULL;
}

static int work(void)
{
    frame_stream_init(&stream, FETCH_SOCKET_FD, MAX_FETCH_FRAME_BYTES, MAX_FETCH_FRAME_BYTES);
    json_auto_t *order = read_order();
    if (!order)
        return 1;
    _cleanup_buffer_ struct buffer errors = BUFFER_LIMITED(MAX_INSTALL_OUTPUT);
    json_auto_t *result = job_run(order, tell, &errors);
    _cleanup_free_ char *text = result ? json_dumps(result, JSON_COMPACT) : NULL;
    if (text)
        say(FETCH_DONE, text, strlen(text));
    else
        say(FETCH_FAILED, errors.data, errors.length);
    job_clean_up(order);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t level, format;
    struct failure why;
    if (argc != 6 || parse_u64(argv[4], LOG_DEBUG, LOG_ERROR, &level) < 0 ||
        parse_u64(argv[5], LOG_FORMAT_AUTO, LOG_FORMAT_JSON, &format) < 0) {
        (void)fprintf(stderr, "husk-fetcher is started by the keeper of huskd, not by hand.\n");
        return EXIT_FAILURE;
    }
    log_setup("fetcher", (enum log_level)level, (enum log_format)format);
    (void)prctl(PR_SET_NAME, "husk-fetcher", 0, 0, 0);
    (void)signal(SIGPIPE, SIG_IGN);
    json_memory_setup();
    json_object_seed(0);
    int r = sodium_init() < 0 ? fail_plain(&why, ENOSYS, "libsodium does not start")
                              : tree_enter(argv[1], argv[2], argv[3], &why);
    if (r < 0) {
        log_event(LOG_ERROR, "packages cannot be fetched", "reason", why.text, NULL);
        return EXIT_FAILURE;
    }
    return work();
}
