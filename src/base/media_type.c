#include "base/media_type.h"

#include <stddef.h>
#include <string.h>

#include "base/attributes.h"
#include "base/text.h"

#define TEXT(subtype) "text/" subtype "; charset=utf-8"

/* By how often sandboxes make them: the table is searched from its start. */
static const struct {
    const char *extension;
    const char *type;
} types[] = {
    {"png", "image/png"},
    {"csv", TEXT("csv")},
    {"txt", TEXT("plain")},
    {"json", "application/json"},
    {"jpg", "image/jpeg"},
    {"jpeg", "image/jpeg"},
    {"pdf", "application/pdf"},
    {"html", TEXT("html")},
    {"htm", TEXT("html")},
    {"md", TEXT("markdown")},
    {"py", TEXT("x-python")},
    {"ipynb", "application/x-ipynb+json"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"xls", "application/vnd.ms-excel"},
    {"doc", "application/msword"},
    {"ppt", "application/vnd.ms-powerpoint"},
    {"odt", "application/vnd.oasis.opendocument.text"},
    {"ods", "application/vnd.oasis.opendocument.spreadsheet"},
    {"odp", "application/vnd.oasis.opendocument.presentation"},
    {"rtf", "application/rtf"},
    {"svg", "image/svg+xml"},
    {"gif", "image/gif"},
    {"webp", "image/webp"},
    {"bmp", "image/bmp"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"ico", "image/vnd.microsoft.icon"},
    {"avif", "image/avif"},
    {"mp3", "audio/mpeg"},
    {"wav", "audio/wav"},
    {"ogg", "audio/ogg"},
    {"flac", "audio/flac"},
    {"m4a", "audio/mp4"},
    {"mp4", "video/mp4"},
    {"webm", "video/webm"},
    {"mov", "video/quicktime"},
    {"avi", "video/x-msvideo"},
    {"mkv", "video/x-matroska"},
    {"tsv", TEXT("tab-separated-values")},
    {"log", TEXT("plain")},
    {"rst", TEXT("plain")},
    {"ini", TEXT("plain")},
    {"conf", TEXT("plain")},
    {"toml", "application/toml"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"xml", "application/xml"},
    {"jsonl", "application/x-ndjson"},
    {"ndjson", "application/x-ndjson"},
    {"geojson", "application/geo+json"},
    {"css", TEXT("css")},
    {"js", TEXT("javascript")},
    {"mjs", TEXT("javascript")},
    {"wasm", "application/wasm"},
    {"sh", TEXT("x-shellscript")},
    {"c", TEXT("x-c")},
    {"h", TEXT("x-c")},
    {"cpp", TEXT("x-c++")},
    {"r", TEXT("x-r")},
    {"sql", "application/sql"},
    {"tex", TEXT("x-tex")},
    {"ics", TEXT("calendar")},
    {"parquet", "application/vnd.apache.parquet"},
    {"arrow", "application/vnd.apache.arrow.file"},
    {"sqlite", "application/vnd.sqlite3"},
    {"db", "application/vnd.sqlite3"},
    {"zip", "application/zip"},
    {"whl", "application/zip"},
    {"gz", "application/gzip"},
    {"tgz", "application/gzip"},
    {"tar", "application/x-tar"},
    {"bz2", "application/x-bzip2"},
    {"xz", "application/x-xz"},
    {"zst", "application/zstd"},
    {"7z", "application/x-7z-compressed"},
    {"epub", "application/epub+zip"},
    {"ttf", "font/ttf"},
    {"otf", "font/otf"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
};

const char *media_type(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    /* ".png" is a hidden file without an extension. */
    for (size_t i = 0; dot && dot > name && i < ARRAY_LENGTH(types); i++) {
        if (same_ignoring_case(dot + 1, types[i].extension))
            return types[i].type;
    }
    return "application/octet-stream";
}
