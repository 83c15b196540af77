# The table as JSON: of all, of one, by either way of asking.
hasten help run --json >a
hasten run --help --json >b
cmp a b
hasten help tokenize --json
hasten --help --json | tr '{' '\n' | sed -n 's/.*"name":"\([a-z]*\)","synopsis.*/\1/p' | tr '\n' ' '
hasten help --json | grep -o '"exit_status":.*'
