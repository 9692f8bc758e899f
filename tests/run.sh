#!/usr/bin/env bash
# Runs the unit tests given as one argument, then the integration tests (further arguments go to pytest), and closes with the
# line "N passed, N failed". Called by `make test`.
set -u
cd "$(dirname "$0")/.." || exit
build=${HUSK_BUILD:-build}
passed=0 failed=0
read -ra unit <<<"$1"
shift

for program in "${unit[@]}"; do
    if output=$(timeout 120 "$program" 2>&1); then
        count=$(grep -c '^\[       OK \]' <<<"$output")
        passed=$((passed + count))
        echo "ok    $(basename "$program") ($count)"
    else
        failed=$((failed + 1))
        echo "FAIL  $(basename "$program")"
        echo "$output"
    fi
done

report=$(mktemp)
"$build/venv/bin/python" -B -m pytest -q --junitxml="$report" tests/integration "$@"
status=$?
read -r more_passed more_failed < <("$build/venv/bin/python" - "$report" <<'PYTHON'
import sys, xml.etree.ElementTree as tree
try:
    suite = tree.parse(sys.argv[1]).getroot().find("testsuite").attrib
    bad = int(suite["failures"]) + int(suite["errors"])
    print(int(suite["tests"]) - bad - int(suite["skipped"]), bad)
except (OSError, tree.ParseError, AttributeError):
    print(0, 1)
PYTHON
)
rm -f "$report"
passed=$((passed + more_passed)) failed=$((failed + more_failed))
[ $status -ne 0 ] && [ $failed -eq 0 ] && failed=1
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
