# One page per command and one of hasten, made from the table that --help prints.
hasten help --man -o man
ls man | wc -l >a
hasten help --json | tr '{' '\n' | grep -c '"synopsis"\|"version"' | cmp - a
for option in $(hasten help run | sed -n 's/^  .*--\([a-z-]*\).*/\1/p'); do
    grep -q "$(echo "\\-\\-$option" | sed 's/-/\\\\-/g; s/\\\\\\\\/\\\\/g')" man/hasten-run.1 || echo "no $option"
done
hasten help --man eval | sed -n '1,4p;/ctx/p'
hasten help --man eval | cmp - man/hasten-eval.1
hasten help -o man
hasten help --man nothing
hasten help --man -o /dev/null/man
echo $?
