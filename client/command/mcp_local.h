/* Calls of upload_file, download_file and copy_project that name a file of this machine: they are carried out here.
 *
 *     local_begin: arguments, the local file or place ──▶ which sandbox? a tool of huskd tells ──▶ the bytes, over HTTP ──▶ result
 *
 * The sandbox is asked of huskd by a tool call in the same session, so that there is one truth about which one is meant, and about
 * making one: `true` as a command for what puts something into a sandbox, read_file of one byte for what takes something out. What huskd
 * says to that, if it is an error, is the answer. Results look as huskd's own do. What is cancelled leaves nothing behind, on either side. */
#pragma once

#include <stdbool.h>

struct call;
struct local;
struct message;

bool local_wanted(const struct message *message);
/* Answers, or sets call->local; then the answer comes later. */
void local_begin(struct call *call);
void local_free(struct local *local); /* NULL ok; stops what it does */
