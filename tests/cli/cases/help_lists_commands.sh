hasten --help | sed -n '1,17p'
hasten help | cmp - /dev/null >/dev/null 2>&1 || echo "help prints"
