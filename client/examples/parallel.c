/* Four sandboxes at once, one client and one thread for each; Ctrl-C ends them all. cc parallel.c $(pkg-config --cflags --libs husk) */
#include <err.h>
#include <husk.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

enum {
    WORKERS = 4
};

static struct husk *clients[WORKERS];

static void stop(int number)
{
    (void)number;
    for (int i = 0; i < WORKERS; i++)
        husk_cancel(clients[i]);
}

static void *work(void *client)
{
    struct husk *husk = client;
    struct husk_error error;
    struct husk_sandbox *sandbox;
    struct husk_result *result;
    struct husk_code code = {.code = "sum(n * n for n in range(1_000_000))"};
    if (husk_create(husk, NULL, &sandbox, &error) < 0) {
        warnx("%s", error.message);
        return NULL;
    }
    if (husk_execute(husk, sandbox->id, &code, &result, &error) < 0) {
        warnx("%s", error.message);
    } else {
        if (result->output_count > 0)
            printf("%s: %s\n", sandbox->id, result->outputs[0].data.data);
        husk_result_free(result);
    }
    husk_close(husk, sandbox->id, NULL);
    husk_sandbox_free(sandbox);
    return NULL;
}

int main(void)
{
    struct husk_error error;
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        if (husk_new(NULL, &clients[i], &error) < 0)
            errx(1, "%s", error.message);
    }
    signal(SIGINT, stop);
    for (int i = 0; i < WORKERS; i++) {
        if (pthread_create(&threads[i], NULL, work, clients[i]) != 0)
            errx(1, "there can be no thread");
    }
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    signal(SIGINT, SIG_DFL);
    for (int i = 0; i < WORKERS; i++)
        husk_free(clients[i]);
    return 0;
}
