#include "huskd/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/fdio.h"
#include "base/log.h"
#include "base/text.h"
#include "husk/keeper_protocol.h"

static const struct id nobody;

int ledger_open(const char *state, struct failure *why)
{
    char path[PATH_MAX];
    if (format_text(path, sizeof path, "%s/" LEDGER_NAME, state) < 0)
        return fail(why, ENAMETOOLONG, "%.120s", state);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? fail(why, errno, "open %.120s", path) : fd;
}

void ledger_read(struct ledger *ledger, int fd)
{
    *ledger = (struct ledger){.fd = fd};
    if (fd >= 0 && pread(fd, ledger->entries, sizeof ledger->entries, 0) < 0)
        memset(ledger->entries, 0, sizeof ledger->entries);
}

void ledger_close(struct ledger *ledger)
{
    ledger->fd = close_fd(ledger->fd);
}

/* Its place, or MAX_POOL_SIZE. */
static size_t find(const struct ledger *ledger, struct id id)
{
    size_t i = 0;
    while (i < MAX_POOL_SIZE && !id_equal(ledger->entries[i], id))
        i++;
    return i;
}

bool ledger_has(const struct ledger *ledger, struct id id)
{
    return !id_is_null(id) && find(ledger, id) < MAX_POOL_SIZE;
}

/* One write, which a signal cannot cut in half. */
static void set_entry(struct ledger *ledger, size_t i, struct id id)
{
    if (i == MAX_POOL_SIZE)
        return;
    ledger->entries[i] = id;
    if (ledger->fd >= 0 && pwrite(ledger->fd, &id, sizeof id, (off_t)(i * sizeof id)) < 0)
        log_event(LOG_ERROR, "the pool's ledger cannot be written", "reason", strerror(errno),
                  NULL);
}

void ledger_add(struct ledger *ledger, struct id id)
{
    if (!ledger_has(ledger, id))
        set_entry(ledger, find(ledger, nobody), id);
}

void ledger_remove(struct ledger *ledger, struct id id)
{
    if (ledger_has(ledger, id))
        set_entry(ledger, find(ledger, id), nobody);
}
