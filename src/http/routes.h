/* The table of routes, and the handlers it names. Each handler answers its request or makes it wait. */
#pragma once

#include <stddef.h>

#include "http/router.h"

extern const struct route routes[];
extern const size_t routes_count;

/* sandbox_routes.c */
void route_create(struct request *request);
void route_describe(struct request *request);
void route_list(struct request *request);
void route_extend(struct request *request);
void route_close(struct request *request);
/* execute_routes.c */
void route_execute(struct request *request);
void route_execution(struct request *request);
void route_input(struct request *request);
void route_interrupt(struct request *request);
void route_restart(struct request *request);
/* prompt_routes.c */
void route_complete(struct request *request);
void route_inspect(struct request *request);
void route_is_complete(struct request *request);
/* command_routes.c */
void route_command(struct request *request);
void route_commands(struct request *request);
void route_command_result(struct request *request);
void route_command_kill(struct request *request);
/* package_routes.c */
void route_install(struct request *request);
void route_packages(struct request *request);
void route_package(struct request *request);
/* file_routes.c */
void route_download(struct request *request);
void route_file(struct request *request);
/* folder_routes.c */
void route_list_files(struct request *request);
void route_remove_file(struct request *request);
/* mcp_routes.c */
void route_mcp(struct request *request);
void route_mcp_stream(struct request *request);
void route_mcp_end(struct request *request);
void route_mcp_tool(struct request *request);
void route_sse(struct request *request);
void route_messages(struct request *request);
/* health_routes.c */
void route_health(struct request *request);
