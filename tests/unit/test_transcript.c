#include "shim/transcript.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "husk/limits.h"

enum {
    LIMIT = 512 /* head 256, tail 64, the rest for the note */
};

static char *rendered(const struct transcript *transcript)
{
    struct buffer out = {0};
    assert_int_equal(transcript_render(transcript, NULL, &out), 0);
    assert_true(out.length <= transcript->limit);
    return buffer_take(&out);
}

static void append_text(struct transcript *transcript, const char *text)
{
    transcript_append(transcript, text, strlen(text));
}

static void whole(void **state)
{
    (void)state;
    struct transcript transcript;
    transcript_init(&transcript, LIMIT);
    char text[321] = {0};
    for (size_t i = 0; i < 320; i++) {
        text[i] = (char)('a' + i % 26);
        transcript_append(&transcript, text + i, 1);
    }
    _cleanup_free_ char *result = rendered(&transcript);
    assert_string_equal(result, text);
    assert_false(transcript_is_cut(&transcript));
    transcript_free(&transcript);
}

static void empty(void **state)
{
    (void)state;
    struct transcript transcript;
    transcript_init(&transcript, LIMIT);
    append_text(&transcript, "");
    _cleanup_free_ char *result = rendered(&transcript);
    assert_string_equal(result, "");
    transcript_free(&transcript);
}

/* The same text must come out however it is cut into pieces. */
static void pieces_make_no_difference(void **state)
{
    (void)state;
    char text[5000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('0' + i % 10);
    char *reference = NULL;
    for (size_t step = 1; step <= sizeof text; step = step * 2 + 1) {
        struct transcript transcript;
        transcript_init(&transcript, LIMIT);
        for (size_t at = 0; at < sizeof text; at += step)
            transcript_append(&transcript, text + at,
                              at + step < sizeof text ? step : sizeof text - at);
        char *result = rendered(&transcript);
        assert_true(transcript_is_cut(&transcript));
        if (!reference)
            reference = strdup(result);
        assert_string_equal(result, reference);
        free(result);
        transcript_free(&transcript);
    }
    assert_memory_equal(reference, text, 256);
    assert_non_null(strstr(reference, "\n[4680 bytes left out]\n"));
    assert_memory_equal(reference + strlen(reference) - 64, text + sizeof text - 64, 64);
    free(reference);
}

static void characters_stay_whole(void **state)
{
    (void)state;
    static const char *const characters[] = {"\xc3\xa9", "\xe6\xad\xa3", "\xf0\x9f\x8c\xbd"};
    for (size_t i = 0; i < 3; i++) {
        for (size_t shift = 0; shift < 4; shift++) {
            struct transcript transcript;
            transcript_init(&transcript, LIMIT);
            transcript_append(&transcript, "xxxx", shift);
            for (int k = 0; k < 1000; k++)
                append_text(&transcript, characters[i]);
            _cleanup_free_ char *result = rendered(&transcript);
            assert_true(utf8_valid(result, strlen(result)));
            unsigned long long missing = 0;
            assert_int_equal(sscanf(strchr(result, '[') + 1, "%llu", &missing), 1);
            char note[64];
            int note_length = snprintf(note, sizeof note, "\n[%llu bytes left out]\n", missing);
            assert_int_equal(strlen(result) - (size_t)note_length + missing,
                             shift + 1000 * strlen(characters[i]));
            transcript_free(&transcript);
        }
    }
}

static void cleared(void **state)
{
    (void)state;
    struct transcript transcript;
    transcript_init(&transcript, LIMIT);
    for (int i = 0; i < 100; i++)
        append_text(&transcript, "0123456789");
    transcript_clear(&transcript);
    assert_false(transcript_is_cut(&transcript));
    append_text(&transcript, "new");
    _cleanup_free_ char *result = rendered(&transcript);
    assert_string_equal(result, "new");
    transcript_free(&transcript);
}

static void says_where_the_whole_is(void **state)
{
    (void)state;
    char path[MAX_TEXT_PATH_LENGTH + 1] = {0};
    memset(path, 'p', MAX_TEXT_PATH_LENGTH);
    struct transcript transcript;
    transcript_init(&transcript, LIMIT);
    append_text(&transcript, "short");
    for (int i = 0; i < 2; i++) {
        struct buffer out = {0};
        assert_int_equal(transcript_render(&transcript, path, &out), 0);
        assert_true(out.length <= LIMIT);
        _cleanup_free_ char *result = buffer_take(&out);
        /* Nothing is missing: nothing to tell. */
        if (i == 0)
            assert_string_equal(result, "short");
        else
            assert_non_null(strstr(result, " bytes left out; the whole text is in ppp"));
        for (int k = 0; k < 100; k++)
            append_text(&transcript, "0123456789");
    }
    transcript_free(&transcript);
}

static void no_room(void **state)
{
    (void)state;
    struct transcript transcript;
    transcript_init(&transcript, LIMIT);
    for (int i = 0; i < 100; i++)
        append_text(&transcript, "0123456789");
    for (size_t room = 1; room < 200; room++) {
        _cleanup_buffer_ struct buffer out = BUFFER_LIMITED(room);
        assert_true(transcript_render(&transcript, NULL, &out) < 0);
    }
    transcript_free(&transcript);
}

/* As much as there is room for is never cut, whatever the characters are. */
static void room(void **state)
{
    (void)state;
    static const char *const pieces[] = {"x", "é", "€", "🦊"};
    for (size_t i = 0; i < ARRAY_LENGTH(pieces); i++) {
        struct transcript transcript;
        size_t length = strlen(pieces[i]), appended = 0;
        transcript_init(&transcript, 1000);
        while (transcript_room(&transcript) >= length) {
            transcript_append(&transcript, pieces[i], length);
            appended += length;
            assert_false(transcript_is_cut(&transcript));
        }
        assert_true(appended > 700);
        transcript_free(&transcript);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(room),
        cmocka_unit_test(whole),
        cmocka_unit_test(empty),
        cmocka_unit_test(pieces_make_no_difference),
        cmocka_unit_test(characters_stay_whole),
        cmocka_unit_test(cleared),
        cmocka_unit_test(says_where_the_whole_is),
        cmocka_unit_test(no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
