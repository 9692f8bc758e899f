/* husk.conf. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "huskd/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("husk.conf", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
        close(fd);
        return 0;
    }
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct config config = {0};
    struct failure why = {0};
    config_defaults(&config);
    if (config_read_file(&config, path, &why) < 0 || config_check(&config, &why) < 0)
        check(*why.text);
    config_free(&config);
    close(fd);
    return 0;
}
