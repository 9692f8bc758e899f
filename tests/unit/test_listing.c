/* Lists of files are cut between entries, and never read. */
#include "unit.h"

#include "mcp/listing.h"

static const char whole[] = "[{\"path\":\"a]\"},\n{\"path\":\"b,\"},\n{\"path\":\"\xc3\xbc\"}]\n";

/* What is left of `text` with this limit, on one line; free(). NULL: it is no list. */
static char *entries_of(const char *text, size_t limit, bool *ret_incomplete)
{
    struct listing listing = {.limit = limit};
    struct buffer out = {0};
    const char *entries;
    size_t length;
    for (size_t i = 0; text[i]; i++)
        listing_add(&listing, text + i, 1);
    *ret_incomplete = listing.incomplete;
    bool good = listing_entries(&listing, &entries, &length);
    if (good)
        assert_int_equal(listing_append(&out, entries, length), 0);
    listing_free(&listing);
    if (!good)
        return NULL;
    return out.length ? buffer_take(&out) : strdup("");
}

static void all_of_it(void **state)
{
    (void)state;
    bool incomplete;
    char *text = entries_of(whole, strlen(whole), &incomplete);
    assert_string_equal(text, "{\"path\":\"a]\"}, {\"path\":\"b,\"}, {\"path\":\"\xc3\xbc\"}");
    assert_false(incomplete);
    free(text);
    text = entries_of("[]\n", 1000, &incomplete);
    assert_string_equal(text, "");
    free(text);
}

/* Wherever the limit falls, what is left is a list of whole entries. */
static void cut(void **state)
{
    (void)state;
    for (size_t limit = 1; limit < strlen(whole); limit++) {
        bool incomplete;
        char *text = entries_of(whole, limit, &incomplete);
        assert_true(incomplete);
        if (!text)
            continue;
        assert_true(!*text || text[strlen(text) - 1] == '}');
        assert_null(strchr(text, '\n'));
        free(text);
    }
}

/* Entries that an earlier page had, in pieces of any size. */
static void skipped(void **state)
{
    (void)state;
    static const char *const left[] = {
        "{\"path\":\"a]\"}, {\"path\":\"b,\"}, {\"path\":\"\xc3\xbc\"}",
        "{\"path\":\"b,\"}, {\"path\":\"\xc3\xbc\"}", "{\"path\":\"\xc3\xbc\"}"};
    for (size_t skip = 0; skip < 5; skip++) {
        for (size_t size = 1; size < sizeof whole; size++) {
            struct listing listing = {.limit = 1000, .skip = skip};
            struct buffer out = {0};
            const char *entries;
            size_t length;
            for (size_t i = 0; i < strlen(whole); i += size)
                listing_add(&listing, whole + i,
                            strlen(whole) - i < size ? strlen(whole) - i : size);
            bool good = listing_entries(&listing, &entries, &length);
            assert_int_equal(good, skip < ARRAY_LENGTH(left));
            if (good) {
                assert_int_equal(listing_count(entries, length), ARRAY_LENGTH(left) - skip);
                assert_int_equal(listing_append(&out, entries, length), 0);
                assert_string_equal(buffer_text(&out), left[skip]);
            }
            buffer_free(&out);
            listing_free(&listing);
        }
    }
    assert_int_equal(listing_count("", 0), 0);
}

static void no_list(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "]", "{}\n", "x]\n", "[", "[\xff]\n", "\n"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        bool incomplete;
        assert_null(entries_of(bad[i], 1000, &incomplete));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it),
        cmocka_unit_test(cut),
        cmocka_unit_test(skipped),
        cmocka_unit_test(no_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
