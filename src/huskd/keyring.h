/* The keys that are in force, and whom they lead to (caller.h).
 *
 * Where they come from: `api_key` or `api_key_hash` of husk.conf (the caller ADMIN_NAME), and the keys file, one key a line:
 *
 *     name role hash [quota=number …]
 *     alice user sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 sandboxes=5 executions=4
 *
 * role is `user` or `admin`; quotas (sandboxes, executions, requests_per_second, burst; 0: none) override those of the [quotas]
 * section, which are a user's; an admin has none unless his line says so. Lines that are empty or begin with # count for nothing. Several lines
 * may have the same name: keys of the same owner, which must then agree in role and quotas. `huskd --new-key NAME` makes a key and its line.
 *
 * Of a key only its SHA-256 is kept, in the file and in memory. A slow or salted hash, as for passwords, would gain nothing: a
 * key has 256 random bits, so there is nothing to guess and no two are alike; and each request is hashed. (So do not invent keys:
 * a word that somebody chose can be guessed from its hash.) The hash of what a caller sends is compared with every one
 * in the ring, each in constant time and always all of them: how long that takes says nothing about how nearly a key is right,
 * nor which one it is.
 *
 * If nothing of this is configured nobody needs a key. A keys file without a line lets nobody in. Owner: main.c; loop
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/failure.h"

struct caller;
struct callers;
struct config;
struct keyring;

/* Both are borrowed. The keys of husk.conf are in it; keyring_read() gets those of the file. -EINVAL: api_key_hash is no hash. */
int keyring_new(const struct config *config, struct callers *callers, struct keyring **ret,
                struct failure *why);
struct keyring *keyring_free(struct keyring *keyring); /* NULL ok, returns NULL */

/* Read the keys file from an open descriptor, which stays the caller's: the keys of husk.conf and of this file are in force from
 * now on, and no others. On failure (what is wrong, with its line) everything stays as it was. Others must not be able to read the
 * file: -EACCES. */
int keyring_read(struct keyring *keyring, int fd, struct failure *why);
size_t keyring_count(const struct keyring *keyring);

/* Is any key configured, in any way? */
bool config_has_keys(const struct config *config);
/* Whom this key leads to; NULL: nobody. If no key is configured: ADMIN_NAME, whatever it is. */
struct caller *keyring_find(const struct keyring *keyring, const char *key);

/* For --new-key: a fresh key goes to `key_out`, with what to do with it; the line for the keys file to `line_out`. */
int keyring_make(const char *name, FILE *key_out, FILE *line_out, struct failure *why);
