/* The connection to the keeper. Questions carry a tag and are answered by a callback, from the
 * loop, exactly once (once per message for KEEPER_USAGE), never from inside keeper_client_ask().
 * What cannot be answered is answered with a negative status and a text: -ECONNRESET when the
 * keeper died over it, -ETIMEDOUT when it takes too long.
 *
 * When the connection breaks, the anchor has already started another keeper: the client connects
 * again, for as long as it takes. Removals are then asked again, since a removal can be done twice;
 * everything else fails. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "base/id.h"
#include "husk/keeper_protocol.h"
#include "loop/loop.h"

struct keeper_client;

typedef void (*keeper_callback)(const struct keeper_message *answer, void *user);

/* A descriptor, which is the callback's to close, or -errno as of KEEPER_OPEN and as above. */
typedef void (*keeper_open_callback)(int fd, void *user);

/* The answer to a question about a file. The descriptor is the callback's to close; -1: there is none. */
typedef void (*keeper_file_callback)(const struct keeper_message *answer, int fd, void *user);

struct keeper_events {
    void (*gone)(struct id id, void *user);       /* KEEPER_GONE */
    void (*lost)(const char *reason, void *user); /* the connection broke; trying again */
    void (*absent)(void *user);                   /* trying again failed, and will be repeated */
    void (*connected)(const char *version,
                      void *user); /* again; what happened meanwhile is not known */
    void *user;
};

/* Connect and say hello; blocks up to ten seconds, only before the loop runs. A descriptor, -ENOENT
 * or -ECONNREFUSED when no keeper is there, -ECONNRESET when it ended meanwhile, or another -errno. `version` gets the keeper's
 * HUSK_VERSION. */
int keeper_connect(const char *path, char version[KEEPER_TEXT_SIZE], struct failure *why);

/* Takes `fd`, a connection from keeper_connect(). Copies `path` and `events`. */
struct keeper_client *keeper_client_new(struct loop *loop, int fd, const char *path,
                                        const struct keeper_events *events);
struct keeper_client *keeper_client_free(
    struct keeper_client *client); /* callbacks are not called */

/* Ask; version and tag of `question` are filled in. Returns the tag. */
uint64_t keeper_client_ask(struct keeper_client *client, const struct keeper_message *question,
                           keeper_callback callback, void *user);
/* Ask for a file below /home/user of a sandbox (KEEPER_OPEN). `path` is copied; at most MAX_FILE_PATH_BYTES of it. */
uint64_t keeper_client_open(struct keeper_client *client, struct id id, const char *path,
                            keeper_open_callback callback, void *user);
/* Ask about files otherwise (KEEPER_MAKE_FILE, KEEPER_PLACE, KEEPER_PORT). `path` is copied; NULL: none. Takes `fd`; -1: none. */
uint64_t keeper_client_ask_file(struct keeper_client *client, const struct keeper_message *question,
                                const char *path, int fd, keeper_file_callback callback,
                                void *user);
/* Ask for a process that fetches packages (KEEPER_FETCH): a stream socket to it. */
uint64_t keeper_client_fetch(struct keeper_client *client, keeper_open_callback callback,
                             void *user);
/* The callback for this tag will not be called any more. The question is not taken back. */
void keeper_client_forget(struct keeper_client *client, uint64_t tag);
bool keeper_client_connected(const struct keeper_client *client);
