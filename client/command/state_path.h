/* What `husk` keeps for its user between two runs: files below $XDG_STATE_HOME/husk, else ~/.local/state/husk. */
#pragma once

/* Where a file of this name is, for free(); the folders above it are made, for this user alone. NULL: nobody says where that would be. */
char *state_path(const char *name);
