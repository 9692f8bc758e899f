#include "command/wide.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

wchar_t *wide_of(const char *text)
{
    size_t left = strlen(text), count = 0;
    wchar_t *wide = malloc((left + 1) * sizeof *wide);
    mbstate_t state = {};
    while (wide && left > 0) {
        size_t length = mbrtowc(wide + count, text, left, &state);
        if (length == 0 || length > left) {
            wide[count] = 0xfffd;
            length = 1;
            state = (mbstate_t){};
        }
        count++;
        text += length;
        left -= length;
    }
    if (wide)
        wide[count] = 0;
    return wide;
}

char *narrow_of(const wchar_t *text)
{
    size_t length = wcslen(text), count = 0;
    char *narrow = malloc(length * MB_LEN_MAX + 1);
    mbstate_t state = {};
    for (size_t i = 0; narrow && i < length; i++) {
        size_t got = wcrtomb(narrow + count, text[i], &state);
        if (got == (size_t)-1)
            state = (mbstate_t){};
        else
            count += got;
    }
    if (narrow)
        narrow[count] = 0;
    return narrow;
}

size_t wide_columns(const wchar_t *text)
{
    size_t columns = 0;
    for (; *text; text++) {
        int width = wcwidth(*text);
        columns += width > 0 ? (size_t)width : 0;
    }
    return columns;
}

wchar_t *wide_piece(const wchar_t *text, size_t length)
{
    wchar_t *piece = malloc((length + 1) * sizeof *piece);
    if (piece) {
        wmemcpy(piece, text, length);
        piece[length] = 0;
    }
    return piece;
}
