/* libmicrohttpd on our loop: receives requests, has them judged and routed, sends their answers. */
#pragma once

#include <stddef.h>

#include "base/failure.h"

struct MHD_Connection;
struct guard;
struct mcp;
struct server;
struct service;

/* `guard` is borrowed. Takes `listen_fd`, a listening socket. */
struct server *server_new(struct service *service, const struct guard *guard, int listen_fd,
                          struct failure *why);
/* Take no new connections; those that are there are answered. */
void server_stop_listening(struct server *server);
struct mcp *server_mcp(const struct server *server);
/* Let a connection that was suspended go on. */
void server_resume(struct server *server, struct MHD_Connection *connection);
/* Requests that wait for something. */
size_t server_waiting(const struct server *server);
/* Requests whose answer is not wholly sent, waiting ones included. */
size_t server_open(const struct server *server);
/* Bytes of answers that are in memory until their clients have read them. */
size_t server_unread(const struct server *server);
/* Answer every request that waits: 503, shutting_down. */
void server_dismiss(struct server *server);
/* No request may be waiting. */
struct server *server_free(struct server *server);
