/* The frames between huskd and a shim, as either of them reads them: the input is what comes over the socket. */
#include "fuzz.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/frame.h"

enum {
    LIMIT = 4096
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int pair[2];
    if (size > 64 * 1024 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return 0;
    struct frame_stream stream = {0};
    frame_stream_init(&stream, pair[0], LIMIT, LIMIT);
    bool sent = write(pair[1], data, size) == (ssize_t)size;
    close(pair[1]);
    struct frame_header header;
    const char *payload;
    struct failure why;
    size_t total = 0;
    int r = 0, filled = 0;
    while (sent && r >= 0 && filled == 0) {
        filled = frame_fill(&stream);
        while ((r = frame_next(&stream, &header, &payload, &why)) == 1) {
            check(header.version == FRAME_VERSION && header.length <= LIMIT);
            unsigned sum = 0;
            for (size_t i = 0; i < header.length; i++)
                sum += (unsigned char)payload[i];
            (void)sum;
            total += sizeof header + header.length;
        }
    }
    check(total <= size);
    frame_stream_close(&stream);
    return 0;
}
