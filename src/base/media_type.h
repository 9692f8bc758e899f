/* What kind of content a file has, judged by the extension of its name. */
#pragma once

/* A value for Content-Type, static; "application/octet-stream" when the extension is unknown or there is none. Text has
 * charset=utf-8. `path` may have folders in front. */
const char *media_type(const char *path);
