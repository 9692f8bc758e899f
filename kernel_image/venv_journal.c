#include "venv_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A step: its letter, its path, NUL. */
enum step {
    TAKEN = 'T',  /* the file is now undo/N, N counting these steps */
    PUT = 'P',    /* a new file */
    MADE = 'M',   /* a new folder */
    DROPPED = 'D' /* a folder is gone */
};

static const char journal_path[] = WORK_FOLDER "/journal";
static int journal = -1;
static unsigned taken;

static int note(enum step step, const char *path)
{
    char record[PATH_MAX + 2];
    int length = snprintf(record, sizeof record, "%c%s", (char)step, path);
    if (length < 0 || length >= (int)sizeof record ||
        write(journal, record, (size_t)length + 1) != length + 1) {
        (void)fprintf(stderr, "note %s: %s\n", path, strerror(errno));
        return -1;
    }
    return 0;
}

static int move(const char *from, const char *to)
{
    if (rename(from, to) == 0)
        return 0;
    (void)fprintf(stderr, "move %s: %s\n", from, strerror(errno));
    return -1;
}

int journal_begin(void)
{
    taken = 0;
    journal = open(journal_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    return journal < 0 ? -1 : 0;
}

static void undo_name(unsigned number, char *path, size_t size)
{
    (void)snprintf(path, size, WORK_FOLDER "/undo/%u", number);
}

int journal_take(const char *path)
{
    char kept[PATH_MAX];
    undo_name(taken++, kept, sizeof kept);
    return note(TAKEN, path) < 0 ? -1 : move(path, kept);
}

int journal_put(const char *source, const char *target)
{
    struct stat status;
    if (lstat(target, &status) == 0) {
        /* A folder in the way goes if it is empty; else moving says what is wrong. */
        if (S_ISDIR(status.st_mode))
            (void)journal_drop_empty(target);
        else if (journal_take(target) < 0)
            return -1;
    }
    return note(PUT, target) < 0 ? -1 : move(source, target);
}

int journal_make_folder(const char *path)
{
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return 0;
    if (note(MADE, path) < 0)
        return -1;
    if (mkdir(path, 0755) == 0)
        return 0;
    (void)fprintf(stderr, "make %s: %s\n", path, strerror(errno));
    return -1;
}

bool journal_drop_empty(const char *path)
{
    if (rmdir(path) < 0)
        return false;
    return note(DROPPED, path) ==
           0; /* afterwards: most are not empty, and it is easy to make one */
}

int journal_commit(void)
{
    close(journal);
    journal = -1;
    return unlink(journal_path);
}

static void undo_step(const char *record, unsigned *number)
{
    char kept[PATH_MAX];
    switch ((enum step) * record) {
    case TAKEN:
        undo_name(--*number, kept, sizeof kept);
        (void)rename(kept, record + 1);
        break;
    case PUT:
        (void)unlink(record + 1);
        break;
    case MADE:
        (void)rmdir(record + 1);
        break;
    case DROPPED:
        (void)mkdir(record + 1, 0755);
        break;
    }
}

/* Backwards. */
static void undo_all(char *text, size_t length)
{
    unsigned number = 0;
    for (size_t at = 0; at < length; at += strlen(text + at) + 1)
        number += text[at] == TAKEN;
    while (length > 0) {
        size_t start = length - 1;
        while (start > 0 && text[start - 1] != '\0')
            start--;
        if (text[start])
            undo_step(text + start, &number);
        length = start;
    }
}

void journal_undo(void)
{
    struct stat status;
    int fd = open(journal_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        return;
    char *text = malloc((size_t)status.st_size + 1);
    ssize_t length = text ? read(fd, text, (size_t)status.st_size) : -1;
    /* A step that was not written to its end was not taken. */
    while (length > 0 && text[length - 1] != '\0')
        length--;
    if (length > 0)
        undo_all(text, (size_t)length);
    free(text);
    close(fd);
    (void)unlink(journal_path);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    (void)remove(path);
    return 0;
}

void remove_tree(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
