/* pip and uv, inside a sandbox. The sandbox has no network: what is to be installed is asked of the service, over a socket
 * (husk/package_protocol.h), and what it says is printed. Everything else that pip and uv can do needs no network: the real ones
 * do it. One program under several names; /opt/husk/bin is first in PATH. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "husk/package_protocol.h"

enum {
    MAX_REQUIREMENTS = 1024,
    MAX_NESTED_FILES = 8,
    LINE_SIZE = 4096,
    MAX_ARGUMENTS = 4096
};

struct order {
    const char *requirements[MAX_REQUIREMENTS];
    size_t count;
    bool upgrade, pre, no_dependencies, quiet;
    bool local; /* a path was named: pip can do that by itself */
};

static int usage_error(const char *text, const char *what)
{
    (void)fprintf(stderr, "ERROR: %s%s\n", text, what);
    return 2;
}

/* --- the real ones ---------------------------------------------------------------------------- */

static int run_pip(char **arguments)
{
    const char *argv[MAX_ARGUMENTS + 4] = {"/opt/venv/bin/python", "-m", "pip"};
    size_t count = 3;
    while (*arguments && count < MAX_ARGUMENTS)
        argv[count++] = *arguments++;
    (void)setenv("HUSK_REAL_PIP", "1", 1);
    (void)setenv("PIP_NO_INDEX", "1", 1);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    return usage_error("cannot run ", argv[0]);
}

static int run_uv(char **arguments)
{
    (void)setenv("UV_OFFLINE", "1", 1);
    (void)setenv("UV_PYTHON_DOWNLOADS", "never", 1);
    execv("/opt/tools/uv", arguments);
    return usage_error("cannot run ", "uv");
}

/* --- what is asked for ------------------------------------------------------------------------ */

static int add_requirement(struct order *order, const char *text)
{
    struct stat status;
    if (!text)
        return usage_error("out of memory", "");
    if (strstr(text, "://"))
        return usage_error("the sandbox has no network, only packages of the index can be "
                           "installed, by name: ",
                           text);
    if (strchr(text, '/') || !strcmp(text, ".") ||
        (strstr(text, ".whl") && stat(text, &status) == 0))
        order->local = true;
    if (order->count == MAX_REQUIREMENTS)
        return usage_error("too many requirements", "");
    order->requirements[order->count++] = text;
    return 0;
}

static int read_file(struct order *order, const char *path, int depth);

/* A line of a requirements file: a name, another file, or an option that changes nothing here. */
static int read_line(struct order *order, char *line, const char *path, int depth)
{
    char *comment = strstr(line, " #");
    if (*line == '#')
        return 0;
    if (comment)
        *comment = '\0';
    while (*line == ' ' || *line == '\t')
        line++;
    line[strcspn(line, "\r\n")] = '\0';
    for (size_t end = strlen(line); end > 0 && (line[end - 1] == ' ' || line[end - 1] == '\t');)
        line[--end] = '\0';
    if (!strncmp(line, "-r ", 3) || !strncmp(line, "--requirement ", 14)) {
        char nested[PATH_MAX];
        const char *slash = strrchr(path, '/'), *name = strchr(line, ' ') + 1;
        (void)snprintf(nested, sizeof nested, "%.*s%s", slash ? (int)(slash - path + 1) : 0, path,
                       name + strspn(name, " "));
        return read_file(order, nested, depth + 1);
    }
    if (*line == '-' && strncmp(line, "-e", 2) != 0 && strncmp(line, "--editable", 10) != 0) {
        (void)fprintf(stderr, "WARNING: ignoring '%s' of %s\n", line, path);
        return 0;
    }
    if (*line == '-')
        return usage_error("editable installs are not possible here: ", line);
    return *line ? add_requirement(order, strdup(line)) : 0;
}

static int read_file(struct order *order, const char *path, int depth)
{
    char line[LINE_SIZE];
    FILE *file = depth < MAX_NESTED_FILES ? fopen(path, "re") : NULL;
    if (!file) {
        (void)fprintf(stderr, "ERROR: Could not open requirements file: [Errno %d] %s: '%s'\n",
                      errno, strerror(errno), path);
        return 1;
    }
    int r = 0;
    while (r == 0 && fgets(line, sizeof line, file))
        r = read_line(order, line, path, depth);
    fclose(file);
    return r;
}

/* Options of `pip install` and `uv pip install`. Those that choose an index are the operator's business, the others say how to
 * do what is done one way here. */
static const struct {
    const char *name;
    bool has_value;
    bool warn;
    size_t flag; /* offset of a switch in the order, or 0 */
} options[] = {
    {"-U", false, false, offsetof(struct order, upgrade)},
    {"--upgrade", false, false, offsetof(struct order, upgrade)},
    {"--force-reinstall", false, false, offsetof(struct order, upgrade)},
    {"-I", false, false, offsetof(struct order, upgrade)},
    {"--pre", false, false, offsetof(struct order, pre)},
    {"--no-deps", false, false, offsetof(struct order, no_dependencies)},
    {"-q", false, false, offsetof(struct order, quiet)},
    {"-qq", false, false, offsetof(struct order, quiet)},
    {"--quiet", false, false, offsetof(struct order, quiet)},
    {"-v", false, false, 0},
    {"--user", false, false, 0},
    {"--system", false, false, 0},
    {"--no-cache-dir", false, false, 0},
    {"--no-cache", false, false, 0},
    {"--no-input", false, false, 0},
    {"-y", false, false, 0},
    {"--prefer-binary", false, false, 0},
    {"--no-build", false, false, 0},
    {"--no-build-isolation", false, false, 0},
    {"--break-system-packages", false, false, 0},
    {"--disable-pip-version-check", false, false, 0},
    {"--no-warn-script-location", false, false, 0},
    {"--no-compile", false, false, 0},
    {"--upgrade-strategy", true, false, 0},
    {"--root-user-action", true, false, 0},
    {"--progress-bar", true, false, 0},
    {"--only-binary", true, false, 0},
    {"--timeout", true, false, 0},
    {"--retries", true, false, 0},
    {"--python", true, false, 0},
    {"-p", true, false, 0},
    {"--cache-dir", true, false, 0},
    {"-i", true, true, 0},
    {"--index-url", true, true, 0},
    {"--extra-index-url", true, true, 0},
    {"--default-index", true, true, 0},
    {"--index", true, true, 0},
    {"--trusted-host", true, true, 0},
    {"-f", true, true, 0},
    {"--find-links", true, true, 0},
    {"--torch-backend", true, true, 0},
};

static const char *value_of(char ***arguments, const char *name)
{
    const char *equals = strchr(**arguments, '=');
    if (equals && !strncmp(**arguments, "--", 2))
        return equals + 1;
    if (name[1] != '-' && strlen(**arguments) > 2) /* -rfile */
        return **arguments + 2;
    return (*arguments)[1] ? *++*arguments : NULL;
}

static bool is_option(const char *argument, const char *name, bool has_value)
{
    size_t length = strlen(name);
    if (!strcmp(argument, name))
        return true;
    return has_value && !strncmp(argument, name, length) &&
           (argument[length] == '=' || name[1] != '-');
}

static int read_option(struct order *order, char ***arguments)
{
    const char *argument = **arguments;
    static const char *const files[] = {"-r", "--requirement", "--requirements"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (!is_option(argument, files[i], true))
            continue;
        const char *path = value_of(arguments, files[i]);
        return path ? read_file(order, path, 0) : usage_error("-r needs a file", "");
    }
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (!is_option(argument, options[i].name, options[i].has_value))
            continue;
        if (options[i].flag)
            *(bool *)((char *)order + options[i].flag) = true;
        if (options[i].warn)
            (void)fprintf(stderr,
                          "WARNING: ignoring %s: the index is chosen by whoever runs this "
                          "service\n",
                          options[i].name);
        if (options[i].has_value && !value_of(arguments, options[i].name))
            return usage_error("this option needs a value: ", argument);
        return 0;
    }
    if (!strncmp(argument, "-e", 2) || !strncmp(argument, "--editable", 10)) {
        order->local = true;
        return 0;
    }
    return usage_error("no such option: ", argument);
}

static int read_arguments(struct order *order, char **arguments)
{
    int r = 0;
    for (; *arguments && r == 0; arguments++)
        r = **arguments == '-' ? read_option(order, &arguments)
                               : add_requirement(order, *arguments);
    return r;
}

/* --- asking ----------------------------------------------------------------------------------- */

static int connect_service(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = PACKAGE_SOCKET_PATH};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int print_answer(FILE *stream, bool quiet)
{
    char *line = NULL;
    size_t size = 0;
    int code = -1;
    while (code < 0 && getline(&line, &size, stream) > 2) {
        if (*line == 'x')
            code = atoi(line + 2);
        else if (*line == 'e')
            (void)fputs(line + 2, stderr);
        else if (!quiet)
            (void)fputs(line + 2, stdout);
        (void)fflush(stdout);
    }
    free(line);
    if (code < 0)
        (void)fputs("ERROR: the package service ended the connection\n", stderr);
    return code < 0 ? 1 : code & 0xff;
}

static int ask(const struct order *order)
{
    (void)signal(SIGPIPE, SIG_IGN); /* it may refuse before it has read all */
    int fd = connect_service();
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "r+e");
    if (!stream)
        return usage_error("the package service of this sandbox cannot be reached: ",
                           strerror(errno)) -
               1;
    const struct {
        bool wanted;
        const char *name;
    } switches[] = {
        {order->upgrade, "upgrade"}, {order->pre, "pre"}, {order->no_dependencies, "no-deps"}};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        if (switches[i].wanted)
            (void)fprintf(stream, "option %s\n", switches[i].name);
    }
    for (size_t i = 0; i < order->count; i++)
        (void)fprintf(stream, "requirement %s\n", order->requirements[i]);
    (void)fputc('\n', stream);
    (void)fflush(stream);
    return print_answer(stream, order->quiet);
}

static int install(char **arguments, bool by_uv, char **all)
{
    static struct order order;
    for (char **argument = arguments; *argument; argument++) {
        if (!strcmp(*argument, "-h") || !strcmp(*argument, "--help"))
            return by_uv ? run_uv(all) : run_pip(all + 1);
    }
    int r = read_arguments(&order, arguments);
    if (r != 0)
        return r;
    if (order.local)
        return by_uv ? run_uv(all) : run_pip(all + 1);
    if (order.count == 0)
        return usage_error("You must give at least one requirement to install", "") - 1;
    return ask(&order);
}

/* The first argument that is not an option. */
static char **find_command(char **arguments)
{
    while (*arguments && **arguments == '-')
        arguments++;
    return arguments;
}

int main(int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "pip";
    if (argc > MAX_ARGUMENTS)
        return usage_error("too many arguments", "");
    if (!strncmp(name, "uv", 2)) {
        char **command = find_command(argv + 1);
        char **second = *command ? find_command(command + 1) : command;
        if (*command && !strcmp(*command, "pip") && *second && !strcmp(*second, "install"))
            return install(second + 1, true, argv);
        return run_uv(argv);
    }
    char **command = find_command(argv + 1);
    if (*command && !strcmp(*command, "install"))
        return install(command + 1, false, argv);
    if (*command && (!strcmp(*command, "download") || !strcmp(*command, "wheel")))
        return usage_error("the sandbox has no network; pip install works, this does not: pip ",
                           *command) -
               1;
    return run_pip(argv + 1);
}
