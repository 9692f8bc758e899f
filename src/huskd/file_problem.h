/* What went wrong with files, for clients: from errors of the keeper and of porters. */
#pragma once

struct problem;

/* A path that is not one: `error` as of file_path_clean(). */
void file_problem_of_path(struct problem *problem, const char *path, int error);
/* Writing or finding `path` failed with this errno. */
void file_problem(struct problem *problem, const char *path, int error);
/* The same, with a sentence that a porter wrote. */
void file_problem_said(struct problem *problem, int error, const char *sentence);
