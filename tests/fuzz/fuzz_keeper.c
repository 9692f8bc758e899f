/* What huskd sends the keeper: a datagram; and, whatever its path is, a file outside of the working directory is not reached by it. */
#include "fuzz.h"

#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper/keeper_request.h"
#include "keeper/open_beneath.h"

/* A home with links that lead out of it in every way. */
static int home = -1;
static struct stat secret;

static void make_home(void)
{
    int folder = own_folder();
    check(mkdirat(folder, "home", 0700) == 0);
    int file = openat(folder, "secret", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    check(file >= 0 && fstat(file, &secret) == 0);
    close(file);
    home = openat(folder, "home", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check(home >= 0 && mkdirat(home, "a", 0700) == 0);
    check(symlinkat("../secret", home, "up") == 0 && symlinkat("../../secret", home, "a/up") == 0);
    check(symlinkat("/", home, "root") == 0 && symlinkat("..", home, "above") == 0);
    file = openat(home, "a/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    check(file >= 0);
    close(file);
    close(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (home < 0)
        make_home();
    struct keeper_request *request = own_memory(sizeof *request);
    size_t room = offsetof(struct keeper_request, fd);
    size_t length = size < room ? size : room;
    if (length)
        memcpy(request, data, length);
    if (keeper_request_check(request, length)) {
        check(memchr(request->message.text, '\0', sizeof request->message.text));
        check(strlen(request->path) == request->message.path_bytes);
        int fd = open_file_beneath(home, request->path);
        struct stat found;
        if (fd >= 0) {
            check(fstat(fd, &found) == 0 && S_ISREG(found.st_mode));
            check(found.st_dev == secret.st_dev && found.st_ino != secret.st_ino);
            close(fd);
        }
    }
    free(request);
    return 0;
}
