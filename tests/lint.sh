#!/usr/bin/env bash
# `make lint` calls this with the names of all shell scripts: formatting, static analysis, shell scripts, include layers, sizes.
set -u
cd "$(dirname "$0")/.." || exit
mapfile -t sources < <(git ls-files --cached --others --exclude-standard '*.c' '*.h')
status=0
complain() { echo "lint: $1"; status=1; }

clang-format --dry-run -Werror "${sources[@]}" || complain "run: clang-format -i on the files above"

cppcheck --quiet --enable=warning,performance,portability --inline-suppr --error-exitcode=1 --std=c11 \
    --suppress=missingIncludeSystem --suppress=unknownMacro --suppress=varFuncNullUB --suppress=normalCheckLevelMaxBranches \
    -D__x86_64__ -D__linux__ -Iinclude -Isrc -Iclient src kernel_image client include/husk.h || complain "cppcheck found something"

shellcheck "$@" || complain "shellcheck found something"

# A folder includes itself, base, loop (not in base and the client's library) and husk/; what else it may include stands here.
declare -A also=([base]="" [loop]="" [wire]="" [keeper]="" [shim]="wire" [porter]="" [fetcher]="" [huskd]="" [mcp]="huskd" [http]="huskd mcp"
    [library]="" [command]="" [examples]="")
for file in $(git ls-files --cached --others --exclude-standard 'src/*.c' 'src/*.h' 'client/*.c' 'client/*.h'); do
    folder=$(cut -d/ -f2 <<<"$file")
    [ -n "${also[$folder]+known}" ] || { complain "$file: folder $folder has no line in tests/lint.sh"; continue; }
    allowed="base husk $folder ${also[$folder]}"
    [[ $folder =~ ^(base|library|examples)$ ]] || allowed+=" loop"
    [ "$file" = src/huskd/main.c ] && allowed+=" http"
    while read -r layer; do
        [[ " $allowed " == *" $layer "* ]] || complain "$file includes $layer/, which its layer may not"
    done < <(sed -n 's|^#include "\([a-z]*\)/.*|\1|p' "$file" | sort -u)
done

while read -r lines file; do
    [ "$file" != total ] && [ "$lines" -gt 600 ] && complain "$file has $lines lines, more than 600"
done < <(git ls-files --cached --others --exclude-standard '*.c' '*.h' '*.py' '*.sh' | xargs wc -l)

[ $status -eq 0 ] && echo "lint: clean"
exit $status
