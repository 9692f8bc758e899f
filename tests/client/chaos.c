/* chaos URL FUNCTION: calls of libhusk in which the first allocation fails, then the second, and so on, until all of them succeed. Each call must say
 * that there was no memory, or work; nothing may crash or leak. Allocations of the library fail, those of curl and jansson do not (jansson 2.14
 * writes beyond its memory then): the program is linked with --wrap. Prints how many allocations there are. */
#include <err.h>
#include <errno.h>
#include <husk.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);

static unsigned long left; /* allocations until one fails; 0: none does */
static bool failed;

static bool fails(void)
{
    if (left == 0 || --left > 0)
        return false;
    failed = true;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

static const char *url;
static const struct husk_code code = {.code = "1"};

static int on_event(const struct husk_event *event, void *user)
{
    (void)user;
    return event->json == NULL;
}

static int call_new(struct husk *husk, struct husk_error *error)
{
    struct husk *made;
    struct husk_options options = {.url = url, .api_key = "k", .ca_file = "/c", .user_agent = "u"};
    (void)husk;
    int r = husk_new(&options, &made, error);
    if (r == 0)
        husk_free(made);
    return r;
}

static int call_execute(struct husk *husk, struct husk_error *error)
{
    struct husk_result *result;
    int r = husk_execute(husk, "s", &code, &result, error);
    if (r == 0)
        husk_result_free(result);
    return r;
}

static int call_streaming(struct husk *husk, struct husk_error *error)
{
    struct husk_result *result;
    int r = husk_execute_streaming(husk, "s", &code, on_event, NULL, &result, error);
    if (r == 0)
        husk_result_free(result);
    return r;
}

static int call_list(struct husk *husk, struct husk_error *error)
{
    struct husk_sandbox_list *list;
    int r = husk_list(husk, &list, error);
    if (r == 0)
        husk_sandbox_list_free(list);
    return r;
}

static int call_install(struct husk *husk, struct husk_error *error)
{
    struct husk_installed *installed;
    int r = husk_install(husk, "s", &(struct husk_install){.requirements = "x"}, on_event, NULL,
                         &installed, error);
    if (r == 0)
        husk_installed_free(installed);
    return r;
}

static int call_download(struct husk *husk, struct husk_error *error)
{
    struct husk_content *content;
    int r = husk_download(husk, "s", "f", 0, &content, error);
    if (r == 0)
        husk_content_free(content);
    return r;
}

static int call_download_file(struct husk *husk, struct husk_error *error)
{
    char place[4096];
    snprintf(place, sizeof place, "%s/chaos.txt", getenv("TMPDIR"));
    return husk_download_file(husk, "s", "f", place, error);
}

static const struct {
    const char *name;
    int (*call)(struct husk *husk, struct husk_error *error);
} calls[] = {{"new", call_new},           {"execute", call_execute}, {"streaming", call_streaming},
             {"list", call_list},         {"install", call_install}, {"download", call_download},
             {"file", call_download_file}};

static unsigned long try_all(struct husk *husk, size_t index)
{
    struct husk_error error;
    for (unsigned long number = 1;; number++) {
        left = number;
        failed = false;
        int r = calls[index].call(husk, &error);
        left = 0;
        if (r < 0 && error.kind != HUSK_ERROR_MEMORY)
            errx(1, "%s, allocation %lu: %s: %s", calls[index].name, number,
                 husk_error_name(error.kind), error.message);
        if (r < 0 && !failed)
            errx(1, "%s fails although there was memory", calls[index].name);
        if (!failed)
            return number - 1;
    }
}

int main(int argc, char **argv)
{
    struct husk_error error;
    struct husk *husk;
    if (argc != 3)
        errx(2, "usage: chaos URL FUNCTION");
    url = argv[1];
    if (husk_new(&(struct husk_options){.url = url}, &husk, &error) < 0)
        errx(1, "%s", error.message);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(calls[i].name, argv[2]) == 0)
            printf("%lu\n", try_all(husk, i));
    }
    husk_free(husk);
    return 0;
}
