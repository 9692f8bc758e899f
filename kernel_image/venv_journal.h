/* Changes of a file tree that can be taken back, by whoever comes next if need be. Paths are relative to the environment, which
 * is the working directory. Each step is in the journal before it is taken; nothing is synced, as a sandbox's disk does not
 * outlive the machine's memory. 0 or -1, said on stderr. */
#pragma once

#include <stdbool.h>

/* Where an install works, on the file system of the environment so that files can be renamed from it. */
#define WORK_FOLDER "/opt/venv/.husk"

int journal_begin(void);
int journal_take(const char *path);                      /* a file goes away */
int journal_put(const char *source, const char *target); /* one comes; what was there goes away */
int journal_make_folder(const char *path);               /* unless it is there */
bool journal_drop_empty(const char *path); /* remove a folder; false: it is not empty */
int journal_commit(void);                  /* there is no way back from here */
void journal_undo(void); /* all that was not committed; nothing if there is no journal */

void remove_tree(const char *path);
