/* Names, paths and RECORD files of Python packages. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The same name as PEP 503 has it: case, and which of - _ . stand between the words, do not matter. */
bool same_package(const char *a, const char *b);
/* The path in the next line of a RECORD (CSV), skipping lines that are too long. False: the end. */
bool read_record_line(FILE *file, char *path, size_t size);
/* `entry`, relative to `base`, without any ".." in it. False: it is outside of the folder that `base` is relative to, or absolute. */
bool resolve_below(const char *base, const char *entry, char *path, size_t size);
