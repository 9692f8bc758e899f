#include "shim/kernel_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "base/memory.h"

static void make_key(char key[KERNEL_KEY_SIZE])
{
    unsigned char bytes[(KERNEL_KEY_SIZE - 1) / 2];
    randombytes_buf(bytes, sizeof bytes);
    (void)sodium_bin2hex(key, KERNEL_KEY_SIZE, bytes, sizeof bytes);
}

int kernel_files_write(unsigned generation, char key[KERNEL_KEY_SIZE], struct failure *why)
{
    make_key(key);
    _cleanup_free_ char *text = must_format(
        "{\"transport\":\"ipc\",\"ip\":\"" KERNEL_FILE_ROOT
        "/k%u\",\"shell_port\":%d,\"iopub_port\":%d,"
        "\"stdin_port\":%d,\"control_port\":%d,\"hb_port\":%d,\"key\":\"%s\","
        "\"signature_scheme\":\"hmac-sha256\"}\n",
        generation, PORT_SHELL, PORT_IOPUB, PORT_STDIN, PORT_CONTROL, PORT_HEARTBEAT, key);
    char path[KERNEL_FILE_NAME_SIZE];
    (void)snprintf(path, sizeof path, KERNEL_FILE_FORMAT, generation);
    kernel_files_remove(generation);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail(why, errno, "create %s", path);
    int r = write_all(fd, text, strlen(text));
    return r < 0 ? fail(why, r, "write %s", path) : 0;
}

void kernel_files_remove(unsigned generation)
{
    char path[KERNEL_FILE_NAME_SIZE];
    for (unsigned port = PORT_SHELL; port <= PORT_HEARTBEAT; port++) {
        (void)snprintf(path, sizeof path, KERNEL_SOCKET_FORMAT, generation, port);
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof path, KERNEL_FILE_FORMAT, generation);
    (void)unlink(path);
}
