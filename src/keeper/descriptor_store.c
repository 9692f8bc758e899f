#include "keeper/descriptor_store.h"

#include <errno.h>

#include "base/fdio.h"

int stored_send(int socket, const struct stored_message *message, const int *fds, size_t count)
{
    return send_with_fds(socket, message, sizeof *message, fds, count);
}

int stored_receive(int socket, struct stored_message *message, int fds[STORED_DESCRIPTORS],
                   size_t *count)
{
    *count = STORED_DESCRIPTORS;
    ssize_t n = receive_with_fds(socket, message, sizeof *message, fds, count);
    if (n <= 0)
        return (int)n;
    if (n != sizeof *message) {
        for (size_t i = 0; i < *count; i++)
            close_fd(fds[i]);
        return -EPROTO;
    }
    message->text[sizeof message->text - 1] = '\0';
    return 1;
}
