#include "unit.h"

#include "huskd/install_words.h"

static void failures(void **state)
{
    (void)state;
    static const struct {
        const char *said, *first, *also;
    } cases[] = {
        {"error: No solution found when resolving dependencies\n  cause: Because nope was not "
         "found in the package registry "
         "and you require nope, we can conclude that your requirements are unsatisfiable.",
         "ERROR: Could not find a version that satisfies the requirement nope (from versions: "
         "none)",
         "ERROR: No matching distribution found for nope"},
        {"  cause: Because there is no version of x==99 and you require x==99, we can conclude",
         "ERROR: Could not find a version that satisfies the requirement x==99",
         "No matching distribution found for x==99"},
        {"error: No solution found\n  cause: Because only x<=2 is available and you require x>3, "
         "we",
         "ERROR: Could not find a version that satisfies the requirement x>3", "for x>3"},
        {"  cause: Because all versions of docopt have no usable wheels and you require docopt, we",
         "ERROR: No wheel can be installed", "Only wheels"},
        {"error: No solution found\n  cause: Because a depends on c<2\n      and b depends on "
         "c>=2, we",
         "ERROR: Cannot install these packages together: Because a depends on c<2 and b",
         "ResolutionImpossible"},
        {"error: No space left on device (os error 28)",
         "ERROR: Could not install packages due to an OSError", "disk_mb"},
        {"error: Failed to fetch: http://x/simple/y\n  cause: error sending request for url "
         "(http://x/simple/y)\n  cause: "
         "Connection refused (os error 111)",
         "ERROR: The package index cannot be reached, or does not answer as it should: Connection "
         "refused (os",
         "111)"},
        {"error: Failed to fetch: http://x/y\n  cause: HTTP status client error (401 Unauthorized) "
         "for url (http://x/y)",
         "ERROR: The package index cannot be reached, or does not answer as it should: HTTP status "
         "client error (401",
         "401"},
        {"error: Failed to fetch: http://secret/y", "ERROR: The package index cannot be reached",
         "should."},
        {"", "ERROR: no reason was given", "no reason"},
        {"it took too long", "ERROR: it took too long", "too long"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char *text = install_words_for_failure(cases[i].said);
        if (strncmp(text, cases[i].first, strlen(cases[i].first)) != 0)
            fail_msg("'%s' became '%s'", cases[i].said, text);
        assert_non_null(strstr(text, cases[i].also));
        free(text);
    }
}

static void note(const char *line, void *user)
{
    (void)snprintf((char *)user + strlen(user), 256 - strlen(user), "%s|", line);
}

static void lines(void **state)
{
    (void)state;
    char seen[256] = "";
    install_words_each_line("one\n\ntwo\nthree", note, seen);
    assert_string_equal(seen, "one|two|three|");
}

static void successes(void **state)
{
    (void)state;
    json_t *fetched = json_loads("[{\"name\": \"a\", \"version\": \"1\", \"file\": \"a.whl\"}, "
                                 "{\"name\": \"b\", \"version\": \"2\"},"
                                 "{\"name\": \"c\", \"version\": \"3\", \"file\": \"c.whl\"}]",
                                 0, NULL);
    json_t *wanted = json_pack("[s, s]", "A>=1", "b");
    char *text = install_words_success(fetched);
    assert_string_equal(text, "Successfully installed a-1 c-3");
    free(text);
    text = install_words_collected(fetched);
    assert_string_equal(text, "Installing collected packages: a, c");
    free(text);
    char seen[256] = "";
    install_words_satisfied(fetched, wanted, note, seen);
    assert_string_equal(seen, "Requirement already satisfied: b (2)|");
    assert_true(install_words_asked_for(wanted, "a"));
    assert_false(install_words_asked_for(wanted, "c"));
    json_decref(fetched);
    json_decref(wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(failures), cmocka_unit_test(lines),
                                       cmocka_unit_test(successes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
