/* System calls as a stranger's program makes them: no libc between it and the kernel, every door the processor has. Uploaded into a
 * sandbox by probe.py.
 *
 * Reads lines "door number argument…" and answers each with a line: the result, or minus the errno. A door is `call`, `x32` or `int80`; an
 * argument is a decimal number, or x and the hexadecimal bytes of a buffer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ARGUMENTS = 6,
    LONGEST_LINE = 4096,
    X32_BIT = 0x40000000
};

static char buffers[ARGUMENTS][LONGEST_LINE];

static long parse(const char *word, char *buffer)
{
    if (*word != 'x')
        return (long)strtoull(word, NULL, 10);
    size_t length = strlen(++word) / 2;
    for (size_t i = 0; i < length; i++) {
        char digits[] = {word[2 * i], word[2 * i + 1], '\0'};
        buffer[i] = (char)strtoul(digits, NULL, 16);
    }
    buffer[length] = '\0';
    return (long)buffer;
}

#ifdef __x86_64__
static long by_interrupt(long number, const long *a)
{
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(a[0]), "c"(a[1]), "d"(a[2]), "S"(a[3]), "D"(a[4])
                     : "memory", "r8", "r9", "r10", "r11");
    return result;
}
#else
static long by_interrupt(long number, const long *a)
{
    (void)number;
    (void)a;
    return -ENOSYS; /* a processor without such a door */
}
#endif

static long make(const char *door, long number, const long *a)
{
    if (strcmp(door, "int80") == 0)
        return by_interrupt(number, a);
    if (strcmp(door, "x32") == 0)
        number |= X32_BIT;
    errno = 0;
    long result = syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    return result == -1 ? -errno : result;
}

int main(void)
{
    static char line[ARGUMENTS * LONGEST_LINE];
    pid_t own = getpid();
    while (fgets(line, sizeof line, stdin)) {
        long arguments[ARGUMENTS] = {0};
        char *rest = NULL;
        const char *door = strtok_r(line, " \n", &rest), *number = strtok_r(NULL, " \n", &rest);
        if (!door || !number)
            return 2;
        for (int i = 0; i < ARGUMENTS; i++) {
            const char *word = strtok_r(NULL, " \n", &rest);
            if (!word)
                break;
            arguments[i] = parse(word, buffers[i]);
        }
        long result = make(door, strtol(number, NULL, 10), arguments);
        if (getpid() != own)
            _exit(0); /* a clone that should not be */
        printf("%ld\n", result);
        fflush(stdout);
    }
    return 0;
}
