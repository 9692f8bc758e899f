/* pip and uv inside a sandbox → its shim: a stream socket in /run/husk. The client sends lines and an empty one, the shim
 * answers with lines until it closes. Everything here is under the sandbox's control; the shim trusts none of it.
 *
 *   requirement TEXT    one, as in a requirements.txt
 *   option NAME         upgrade, pre, no-deps
 *
 *   o TEXT              for stdout
 *   e TEXT              for stderr
 *   x NUMBER            the exit code; last */
#pragma once

#define PACKAGE_SOCKET_NAME "packages.sock"
#define PACKAGE_SOCKET_PATH "/run/husk/" PACKAGE_SOCKET_NAME
/* Names of the modules that a kernel has imported, one in a line: the kernel appends, husk-venv reads. */
#define IMPORTED_MODULES_PATH "/run/husk/modules"
