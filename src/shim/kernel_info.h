/* What a kernel says about itself in kernel_info_reply, reduced to a few short strings. */
#pragma once

#include <jansson.h>

/* {"language", "language_version", "implementation", "implementation_version", "protocol_version"},
 * each "" if the kernel does not say. `content` is borrowed, NULL ok. A new reference. */
json_t *kernel_info_summary(const json_t *content);
