/* Pictures in the terminal itself, by the protocols of kitty and of iTerm2. Whether there is one that understands them is taken from the environment alone: a
 * question to the terminal would be garbage on one that does not know it, and could swallow keys. Inside tmux and screen there is none. */
#pragma once

#include <stddef.h>

#include "base/buffer.h"

enum inline_protocol {
    INLINE_NONE,
    INLINE_KITTY, /* PNG */
    INLINE_ITERM  /* whatever the system shows */
};

enum inline_protocol inline_protocol_of_terminal(void);
/* Append what shows a PNG. -EINVAL: it is none, or of an absurd size; -ENOMEM. */
int inline_image(enum inline_protocol protocol, const void *png, size_t length, struct buffer *out);
