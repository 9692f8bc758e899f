/* Starting husk-anchor, which makes the namespace everything else lives in and starts the keeper
 * there. Blocks, up to twenty seconds: only before the loop runs. */
#pragma once

#include "base/failure.h"

struct config;

/* 0 when the keeper listens, or -errno with the anchor's own sentence. */
int anchor_start(const struct config *config, struct failure *why);
/* What --check looks at: is there a whole image? */
int image_check(const char *path, struct failure *why);
