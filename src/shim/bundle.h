/* What is shown, as entries of `results` (API.md "Running code"): one JSON object for each MIME type. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "shim/recorder.h"

struct bundle_limits {
    size_t bytes;   /* of all entries together; one alone has at most MAX_RESULT_BYTES */
    size_t entries; /* how many */
    bool ascii;     /* escape everything else, for readers that cut lines in creative ways */
};

/* Append the entries, joined by commas, to `out`. Returns how many; *ret_cut: some were left out, as they are beyond the
 * limits or not what they should be. */
size_t bundle_render(const struct display *display, const struct bundle_limits *limits,
                     struct buffer *out, bool *ret_cut);
