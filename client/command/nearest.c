#include "command/nearest.h"

#include <string.h>

#include "base/text.h"

enum {
    MAX_WORD_LENGTH = 31,
    MAX_DISTANCE = 2
};

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Letters to add, remove, change or exchange with the next (Damerau and Levenshtein, without touching one twice). */
static unsigned distance(const char *from, const char *to)
{
    unsigned table[MAX_WORD_LENGTH + 1][MAX_WORD_LENGTH + 1] = {};
    size_t rows = strlen(from), columns = strlen(to);
    if (rows > MAX_WORD_LENGTH || columns > MAX_WORD_LENGTH)
        return MAX_DISTANCE + 1;
    for (size_t i = 0; i <= rows; i++) {
        for (size_t j = 0; j <= columns; j++) {
            if (i == 0 || j == 0) {
                table[i][j] = (unsigned)(i + j);
                continue;
            }
            unsigned best = least(table[i - 1][j], table[i][j - 1]) + 1;
            best = least(best, table[i - 1][j - 1] + (from[i - 1] != to[j - 1]));
            if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
                best = least(best, table[i - 2][j - 2] + 1);
            table[i][j] = best;
        }
    }
    return table[rows][columns];
}

const char *nearest_word(const char *text, const char *const *words)
{
    const char *best = NULL, *begun = NULL;
    unsigned shortest = MAX_DISTANCE + 1, beginnings = 0;
    for (; *words; words++) {
        unsigned far = distance(text, *words);
        if (far < shortest && 2 * far < strlen(*words)) {
            shortest = far;
            best = *words;
        }
        if (*text && starts_with(*words, text)) {
            begun = *words;
            beginnings++;
        }
    }
    return beginnings == 1 ? begun : best;
}
