# The scripts know commands, options and values; bash runs its own.
hasten completion bash >c.bash
cat >ask.bash <<'END'
. ./c.bash
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _hasten; echo "${COMPREPLY[@]}"; }
ask hasten co
ask hasten run --cache
ask hasten run -ctk b
ask hasten run --cache-type-v ''
ask hasten help tok
ask hasten completion ''
ask hasten pull gem
ask hasten run -t ''
END
bash ask.bash
hasten completion zsh | grep -c "'--temp\[temperature; 0: the likeliest token "
hasten completion fish | grep "from run' -l cache-type "
for shell in bash zsh fish; do
    hasten completion $shell >c.$shell
    for option in $(hasten help run | sed -n 's/^  .*--\([a-z-]*\).*/\1/p'); do
        grep -q -- "$option" c.$shell || echo "$shell: no $option"
    done
done
hasten completion fihs
hasten completion
echo $?
hasten completion tcsh
true
