/* Memory of the zygote, so arranged that its children share as much of it as possible for as long as possible. A page is copied
 * when a child writes to it first, which costs 4 KiB and 2 µs each, and most of what a new kernel writes is not data:
 *
 *  - reference counts. Objects that are there before the fork become immortal (PEP 683): nobody counts references to them.
 *  - free blocks between them. New objects would be put there, each on another page; all such gaps are used up before.
 *
 * For ctypes; the interpreter that has loaded this must be the caller's, its lock held. */
#pragma once

#include <stddef.h>

/* An object of Python, as far as it must be known: CPython 3.12 and 3.13, 64 bit. */
typedef struct python_object PyObject;

/* Make the objects of the list immortal. A new list of those that were not before; NULL with an exception. Nothing is done, and the
 * list empty, if this interpreter's objects look different. */
PyObject *zygote_immortalise(PyObject *list);

/* Use up the gaps between allocated blocks, and give back what is free behind them. To be called last. */
void zygote_close_gaps(void);
