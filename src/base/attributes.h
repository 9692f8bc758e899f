/* Attributes used everywhere: cleanup at end of scope, visible transfer of ownership. */
#pragma once

#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(function)   __attribute__((cleanup(function)))
#define _printf_(text, first) __attribute__((format(printf, text, first)))
#define _unused_              __attribute__((unused))
#define _noreturn_            __attribute__((noreturn))
#define _cleanup_free_        _cleanup_(free_pointer)
#define _cleanup_close_       _cleanup_(close_descriptor)
#define ARRAY_LENGTH(array)   (sizeof(array) / sizeof((array)[0]))

/* Define `name`, the cleanup function of locals of type `type *`, from its destructor. */
#define DEFINE_CLEANUP(type, destructor)                                                           \
    static inline void destructor##_cleanup(type **pointer)                                        \
    {                                                                                              \
        if (*pointer)                                                                              \
            destructor(*pointer);                                                                  \
    }                                                                                              \
    struct destructor##_requires_semicolon

/* Give the value away: the local no longer owns it. */
#define TAKE_POINTER(pointer)                                                                      \
    ({                                                                                             \
        __typeof__(pointer) taken_ = (pointer);                                                    \
        (pointer) = NULL;                                                                          \
        taken_;                                                                                    \
    })
#define TAKE_DESCRIPTOR(fd)                                                                        \
    ({                                                                                             \
        int taken_ = (fd);                                                                         \
        (fd) = -1;                                                                                 \
        taken_;                                                                                    \
    })

static inline void free_pointer(void *pointer)
{
    free(*(void **)pointer);
}

static inline void close_descriptor(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
