#!/bin/sh
# test_corpus.sh MAKE_CORPUS FOLDER MORE_THAN: every file that MAKE_CORPUS writes lies in FOLDER with the same bytes,
# and they are more than MORE_THAN.
# (FOLDER may hold more: inputs that the fuzzer found.)
set -eu
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
"$1" "$new"
n=0
for made in "$new"/*; do
    if ! cmp "$made" "$2/$(basename "$made")"; then
        echo "FAILED: the corpus is stale; build the target that makes $2"
        exit 1
    fi
    n=$((n + 1))
done
echo "$n corpus files are as made"
test "$n" -gt "$3"
