/* Signed links (base/link.h) in requests: /sandbox/{id}/download/{path*}?expires=…&signature=… */
#pragma once

struct caller;
struct request;

enum link_verdict {
    LINK_ABSENT, /* no link; or nothing to check it against: there never was such a sandbox, or that is forgotten */
    LINK_GOOD,
    LINK_EXPIRED, /* signed by the sandbox, but its time is over */
    LINK_WRONG
};

/* Of a request whose parameters are decoded. A link has the sandbox's id, never its name, which others may use, too. `*ret_owner` (if
 * LINK_GOOD): whose sandbox it is; NULL: nobody can tell yet. While sandboxes of an earlier huskd are being taken over nobody can tell, and
 * nobody gets anything but 503: then it counts as good. */
enum link_verdict link_access_judge(const struct request *request, struct caller **ret_owner);
