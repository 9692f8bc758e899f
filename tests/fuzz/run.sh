#!/usr/bin/env bash
# Runs fuzz targets, each for so many seconds, from the corpus in the tree; what is new goes to build/fuzz/corpus. Called by `make fuzz`.
#   run.sh SECONDS FUZZER…
set -u
seconds=$1
shift
passed=0 failed=0
for fuzzer in "$@"; do
    name=$(basename "$fuzzer") && name=${name#fuzz_}
    folder=$(dirname "$fuzzer")
    found=$folder/corpus/$name
    mkdir -p "$found" "$folder/crashes"
    if "$fuzzer" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
        -artifact_prefix="$folder/crashes/$name-" "$found" "tests/fuzz/corpus/$name" >"$folder/$name.log" 2>&1; then
        passed=$((passed + 1))
        echo "ok    $name ($(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/$name.log") inputs)"
    else
        failed=$((failed + 1))
        echo "FAIL  $name: the input is in $folder/crashes"
        tail -n 40 "$folder/$name.log"
    fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
