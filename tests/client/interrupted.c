/* interrupted URL SANDBOX: run endless code until SIGINT, whose handler cancels the call. */
#include <err.h>
#include <husk.h>
#include <signal.h>
#include <stdio.h>

static struct husk *husk;

static void cancel(int number)
{
    (void)number;
    husk_cancel(husk);
}

int main(int argc, char **argv)
{
    struct husk_error error;
    struct husk_result *result;
    struct husk_options options = {.url = argc == 3 ? argv[1] : NULL};
    if (argc != 3 || husk_new(&options, &husk, &error) < 0)
        errx(2, "usage: interrupted URL SANDBOX");
    if (sigaction(SIGINT, &(struct sigaction){.sa_handler = cancel, .sa_flags = SA_RESTART}, NULL) <
        0)
        err(1, "sigaction");
    puts("begun");
    fflush(stdout);
    struct husk_code code = {.code = "while True: pass", .timeout = 600};
    int r = husk_execute(husk, argv[2], &code, &result, &error);
    puts(r == 0 ? "done" : husk_error_name(error.kind));
    if (r == 0)
        husk_result_free(result);
    husk_free(husk);
    return 0;
}
