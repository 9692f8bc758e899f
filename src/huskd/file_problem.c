#include "huskd/file_problem.h"

#include <errno.h>
#include <string.h>

#include "base/attributes.h"
#include "huskd/problem.h"

void file_problem_of_path(struct problem *problem, const char *path, int error)
{
    if (error == -ENAMETOOLONG)
        problem_set(problem, PROBLEM_INVALID_FIELD,
                    "The path is too long: at most 1024 bytes, 255 for each name in it.");
    else
        problem_set(problem, PROBLEM_INVALID_FIELD,
                    "The path '%.150s' is not one below the working directory. Give it relative to "
                    "/home/user, without '..'.",
                    path);
}

/* By errno; the sentences have room for the path. */
static const struct {
    int error;
    enum problem_kind kind;
    const char *sentence;
} kinds[] = {
    {ENOENT, PROBLEM_FILE_NOT_FOUND, "There is no '%.150s' in the sandbox."},
    {ENOSPC, PROBLEM_DISK_FULL,
     "The disk of the sandbox is full: there is no room for '%.150s'. Remove files, or create a "
     "sandbox with a larger disk_mb."},
    {EISDIR, PROBLEM_FILE_CONFLICT,
     "'%.150s' is a folder. End file_path with '/' to put a file into it."},
    {ENOTDIR, PROBLEM_FILE_CONFLICT, "A part of '%.150s' is not a folder."},
    {EEXIST, PROBLEM_FILE_CONFLICT, "Something else is in the place of '%.150s'."},
    {EACCES, PROBLEM_FILE_CONFLICT, "The modes of the folders of '%.150s' do not allow it."},
    {EPERM, PROBLEM_FILE_CONFLICT, "The modes of the folders of '%.150s' do not allow it."},
    {EXDEV, PROBLEM_INVALID_FIELD, "'%.150s' leads out of the working directory."},
    {ELOOP, PROBLEM_INVALID_FIELD, "'%.150s' leads through a link that leads nowhere."},
    {ENAMETOOLONG, PROBLEM_INVALID_FIELD, "The path '%.150s' is too long."},
    {EINVAL, PROBLEM_INVALID_FIELD, "The path '%.150s' cannot be used."},
    {EBADMSG, PROBLEM_BAD_ARCHIVE, "'%.150s' is no archive that can be read."},
    {EBUSY, PROBLEM_TOO_MANY_FILE_JOBS,
     "This sandbox has as many jobs on folders as it may have. Try '%.150s' again in a moment."},
    {EUSERS, PROBLEM_FILE_UNAVAILABLE,
     "Too many jobs on folders at the same time. Try '%.150s' again in a moment."},
};

static enum problem_kind kind_of(int error, const char **sentence)
{
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
        if (kinds[i].error == error) {
            *sentence = kinds[i].sentence;
            return kinds[i].kind;
        }
    }
    *sentence = NULL;
    return PROBLEM_FILE_UNAVAILABLE;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* they are in the table above */
void file_problem(struct problem *problem, const char *path, int error)
{
    const char *sentence;
    enum problem_kind kind = kind_of(error, &sentence);
    if (sentence)
        problem_set(problem, kind, sentence, path);
    else
        problem_set(problem, kind, "'%.150s' is not available now: %s. Try again in a moment.",
                    path, strerror(error));
}
#pragma GCC diagnostic pop

void file_problem_said(struct problem *problem, int error, const char *sentence)
{
    const char *unused;
    problem_set(problem, kind_of(error, &unused), "%s", sentence);
}
