/* Archives, unpacked as a porter does it. Nothing may appear beside the folder they are unpacked into. */
#include "fuzz.h"

#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "porter/private_folder.h"
#include "porter/unpack.h"

static int around = -1; /* holds nothing but private folders, one at a time */

static void make_surroundings(void)
{
    around = own_folder();
    (void)signal(SIGPIPE, SIG_IGN);
}

static unsigned entries(int folder)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    check(listing);
    unsigned count = 0;
    while (readdir(listing))
        count++;
    closedir(listing);
    return count - 2;
}

static void unpack(int archive, int folder, struct reply *reply)
{
    struct porter_end end = {0};
    struct failure why = {0};
    int r = unpack_archive(reply, archive, folder, &end, &why);
    check(r == 0 || *why.text);
    check(end.entries <= MAX_UNPACKED_ENTRIES + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (around < 0)
        make_surroundings();
    struct private_folder private;
    struct failure why;
    int pair[2], archive = memfd_create("archive", MFD_CLOEXEC);
    check(archive >= 0 && write(archive, data, size) == (ssize_t)size);
    check(lseek(archive, 0, SEEK_SET) == 0);
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    if (private_folder_make(&private, around, &why) == 0) {
        check(mkdirat(private.fd, "tree", 0700) == 0);
        int folder = openat(private.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check(folder >= 0);
        unpack(archive, folder, &(struct reply){.fd = pair[0]});
        check(entries(private.fd) == 1 && entries(around) == 1);
        close(folder);
    }
    private_folder_remove(&private);
    close(pair[0]);
    close(pair[1]);
    close(archive);
    return 0;
}
