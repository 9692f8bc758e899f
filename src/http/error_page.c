#include "http/error_page.h"

#include <dlfcn.h>
#include <string.h>

#include "base/failure.h"
#include "http/response.h"

typedef enum MHD_Result (*queue_function)(struct MHD_Connection *connection, unsigned int status,
                                          struct MHD_Response *response);

enum MHD_Result error_page_pass(struct MHD_Connection *connection, unsigned status,
                                struct MHD_Response *response)
{
    static queue_function library;
    if (!library) {
        void *found = dlsym(RTLD_NEXT, "MHD_queue_response");
        husk_assert(found != NULL);
        memcpy(&library, &found, sizeof library); /* ISO C has no cast from data to function */
    }
    return library(connection, status, response);
}

enum MHD_Result MHD_queue_response(struct MHD_Connection *connection, unsigned int status,
                                   struct MHD_Response *response)
{
    struct MHD_Response *ours = response_for_status(status);
    enum MHD_Result result = error_page_pass(connection, status, ours ? ours : response);
    if (ours)
        MHD_destroy_response(ours);
    return result;
}
