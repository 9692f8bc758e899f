/* Records that are as they were, and records that are not. */
#include "unit.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "huskd/ledger.h"
#include "huskd/seal.h"

static void test_seal(void **state)
{
    (void)state;
    struct seal_key key = seal_key_read(-1), other = {.bytes = {1}};
    struct id id = id_new();
    struct record record = {.owner = "alice", .name = "data"};
    seal_set(&key, id, &record);
    assert_true(seal_good(&key, id, &record));
    assert_false(seal_good(&other, id, &record));
    assert_false(seal_good(&key, id_new(), &record));
    struct record changed = record;
    (void)snprintf(changed.owner, sizeof changed.owner, "bob");
    assert_false(seal_good(&key, id, &changed));
    changed = record;
    (void)snprintf(changed.name, sizeof changed.name, "date");
    assert_false(seal_good(&key, id, &changed));
    /* What is moved from one text to the other is seen, too. */
    changed = record;
    (void)snprintf(changed.owner, sizeof changed.owner, "aliced");
    (void)snprintf(changed.name, sizeof changed.name, "ata");
    assert_false(seal_good(&key, id, &changed));
    /* What may change in the life of a sandbox is not sealed. */
    changed = record;
    changed.expires_at = 5;
    assert_true(seal_good(&key, id, &changed));
}

/* The next huskd finds the key, and the table of the ledger is not touched by it. */
static void test_key_is_kept(void **state)
{
    (void)state;
    _cleanup_close_ int fd = memfd_create("ledger", MFD_CLOEXEC);
    struct ledger ledger;
    struct seal_key first = seal_key_read(fd), second = seal_key_read(fd);
    static const struct seal_key zero;
    assert_memory_equal(&first, &second, sizeof first);
    assert_memory_not_equal(&first, &zero, sizeof first);
    ledger_read(&ledger, dup(fd));
    struct id id = id_new();
    for (int i = 0; i < MAX_POOL_SIZE + 1; i++)
        ledger_add(&ledger, id_new());
    assert_false(ledger_has(&ledger, id));
    second = seal_key_read(fd);
    assert_memory_equal(&first, &second, sizeof first);
    ledger_close(&ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seal),
        cmocka_unit_test(test_key_is_kept),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
