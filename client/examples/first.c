/* cc first.c $(pkg-config --cflags --libs husk) && ./a.out */
#include <err.h>
#include <husk.h>
#include <stdio.h>
#include <string.h>

static int show(const struct husk_event *event, void *figure)
{
    if (event->kind == HUSK_EVENT_STDOUT)
        fwrite(event->text.data, 1, event->text.length, stdout);
    for (size_t i = 0; i < event->output_count; i++)
        if (strcmp(event->outputs[i].type, "image/png") == 0)
            fwrite(event->outputs[i].data.data, 1, event->outputs[i].data.length, figure);
    return 0;
}

int main(void)
{
    struct husk_code code = {.code = "import matplotlib.pyplot as plt\n"
                                     "for n in range(3): print('step', n)\n"
                                     "plt.plot([1, 4, 9]); plt.show()"};
    struct husk_error error;
    struct husk *husk;
    struct husk_sandbox *sandbox;
    struct husk_result *result;
    FILE *figure = fopen("figure.png", "w");
    if (!figure)
        err(1, "figure.png");
    if (husk_new(NULL, &husk, &error) < 0 || husk_create(husk, NULL, &sandbox, &error) < 0)
        errx(1, "%s", error.message);
    if (husk_execute_streaming(husk, sandbox->id, &code, show, figure, &result, &error) < 0)
        errx(1, "%s", error.message); /* the sandbox is left: its id is still good */
    printf("%s after %.0f ms\n", result->status, result->duration_ms);
    husk_result_free(result);
    husk_close(husk, sandbox->id, NULL);
    husk_sandbox_free(sandbox);
    husk_free(husk);
    return fclose(figure);
}
