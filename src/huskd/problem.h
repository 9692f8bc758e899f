/* Why a request is not answered as asked. The modules of huskd fill one in; src/http has a table
 * that says what each kind looks like to a client (status, code, title). Lives on the caller's
 * stack, like struct failure. */
#pragma once

#include "base/attributes.h"

enum problem_kind {
    PROBLEM_NONE,
    /* the request itself */
    PROBLEM_MALFORMED_REQUEST,
    PROBLEM_MALFORMED_JSON,
    PROBLEM_UNAUTHORIZED,
    PROBLEM_HOST_NOT_ALLOWED,
    PROBLEM_ORIGIN_NOT_ALLOWED,
    PROBLEM_LINK_INVALID,
    PROBLEM_LINK_EXPIRED,
    PROBLEM_ROUTE_NOT_FOUND,
    PROBLEM_METHOD_NOT_ALLOWED,
    PROBLEM_BODY_TOO_LARGE,
    PROBLEM_HEADERS_TOO_LARGE,
    PROBLEM_INVALID_FIELD,
    PROBLEM_INVALID_UTF8,
    PROBLEM_NOT_SUPPORTED_YET,
    /* who asks: his quotas */
    PROBLEM_RATE_LIMITED,
    PROBLEM_TOO_MANY_SANDBOXES,
    PROBLEM_TOO_MANY_EXECUTIONS,
    /* the sandbox it is about */
    PROBLEM_SANDBOX_NOT_FOUND,
    PROBLEM_SANDBOX_CLOSED,
    PROBLEM_NAME_TAKEN,
    PROBLEM_NAME_AMBIGUOUS,
    PROBLEM_QUEUE_FULL,
    PROBLEM_NO_INPUT_EXPECTED,
    PROBLEM_EXECUTION_NOT_FOUND,
    PROBLEM_TOO_MANY_COMMANDS,
    PROBLEM_COMMAND_NOT_FOUND,
    PROBLEM_SANDBOX_BUSY,
    PROBLEM_KERNEL_UNAVAILABLE,
    PROBLEM_KERNEL_TIMEOUT, /* it was asked something, and gave no answer */
    PROBLEM_FILE_NOT_FOUND,
    PROBLEM_FILE_UNAVAILABLE, /* it may be there, but not now */
    PROBLEM_FILE_CONFLICT,    /* something else is where it should be */
    PROBLEM_DISK_FULL,
    PROBLEM_BAD_ARCHIVE,
    PROBLEM_UNSUPPORTED_MEDIA, /* the body is not of a type that the route takes */
    PROBLEM_RANGE_NOT_SATISFIABLE,
    PROBLEM_TOO_MANY_FILE_JOBS,
    PROBLEM_PACKAGES_DISABLED,
    PROBLEM_PACKAGE_NOT_ALLOWED,
    PROBLEM_INSTALL_FAILED,
    /* the service */
    PROBLEM_AT_CAPACITY,
    PROBLEM_STARTING,
    PROBLEM_SHUTTING_DOWN,
    PROBLEM_CREATE_FAILED,      /* something is wrong; trying again may not help */
    PROBLEM_CREATE_UNAVAILABLE, /* not now: out of some resource, or the keeper is away */
    PROBLEM_REMOVE_FAILED,
    PROBLEM_OUT_OF_MEMORY,
    PROBLEM_KINDS
};

struct problem {
    enum problem_kind kind;
    const char *why; /* PROBLEM_SANDBOX_CLOSED: "closed", "expired" or "died"; NULL otherwise */
    unsigned retry_after; /* seconds; 0: as the table says for this kind */
    char detail[320];     /* a sentence that says what to do */
};

void problem_set(struct problem *problem, enum problem_kind kind, const char *format, ...)
    _printf_(3, 4);
