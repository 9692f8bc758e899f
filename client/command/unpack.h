/* Unpacking a tar that came from a sandbox: a stranger made it. Into a folder of this machine, below which all of it stays: names that
 * lead elsewhere end it, links that lead out, hard links, pipes and devices are left out, no existing link is followed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"

struct unpack_counts {
    uint64_t files, bytes;
    uint64_t left_out;
};

/* `archive` is read from its beginning; `folder` is a descriptor; of each name the first `strip` components go away. Changes the
 * working directory while it runs: one thread only. */
int unpack_tar(int archive, int folder, size_t strip, struct unpack_counts *counts,
               struct failure *why);
