/* cc first.c $(pkg-config --cflags --libs husk) && ./a.out */
#include <err.h>
#include <husk.h>
#include <stdio.h>
#include <string.h>

static int show(const struct husk_event *event, void *user)
{
    (void)user;
    if (event->kind == HUSK_EVENT_STDOUT)
        fwrite(event->text.data, 1, event->text.length, stdout);
    for (size_t i = 0; i < event->output_count; i++) {
        const struct husk_output *output = &event->outputs[i];
        FILE *file = strcmp(output->type, "image/png") == 0 ? fopen("figure.png", "w") : NULL;
        if (file && fwrite(output->data.data, output->data.length, 1, file) == 1)
            printf("figure.png: %zu bytes\n", output->data.length);
        if (file)
            fclose(file);
    }
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
    if (husk_new(NULL, &husk, &error) < 0 || husk_create(husk, NULL, &sandbox, &error) < 0)
        errx(1, "%s", error.message);
    if (husk_execute_streaming(husk, sandbox->id, &code, show, NULL, &result, &error) < 0)
        warnx("%s", error.message);
    else if (printf("%s after %.0f ms\n", result->status, result->duration_ms))
        husk_result_free(result);
    husk_close(husk, sandbox->id, NULL);
    husk_sandbox_free(sandbox);
    husk_free(husk);
    return 0;
}
