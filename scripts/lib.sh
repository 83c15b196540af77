# Shared by the shell scripts; to be sourced with the tree as the working folder.

# The cache of models and test packages.
hasten_cache=${HASTEN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hasten}

# Everything that a build is made from.
build_inputs="src web include cmake CMakeLists.txt CMakePresets.json"

# say WORDS...: progress, on standard error, under the script's name.
say() {
    echo "$(basename "$0"): $*" >&2
}

# quietly WORDS... -- COMMAND...: announces, runs, and shows the command's output only when it fails.
quietly() {
    quietly_what=
    while [ "$1" != -- ]; do
        quietly_what="$quietly_what${quietly_what:+ }$1"
        shift
    done
    shift
    say "$quietly_what"
    quietly_log=$(mktemp)
    if "$@" >"$quietly_log" 2>&1 </dev/null; then
        rm -f "$quietly_log"
        return 0
    fi
    cat "$quietly_log" >&2
    rm -f "$quietly_log"
    say "failed: $quietly_what"
    return 1
}

# build_preset PRESET TARGET [CMAKE_OPTION...]: configures and builds.
build_preset() {
    build_preset_name=$1
    build_preset_target=$2
    shift 2
    cmake --preset "$build_preset_name" "$@" &&
        cmake --build --preset "$build_preset_name" --target "$build_preset_target"
}

# up_to_date STAMP: whether nothing that a build is made from is newer than STAMP.
up_to_date() {
    [ -f "$1" ] && [ -z "$(find $build_inputs -newer "$1" 2>/dev/null | head -n 1)" ]
}

# test_python: makes the virtual environment of the tests when requirements.txt changed; sets $python.
test_python() {
    venv=$hasten_cache/venv
    python=$venv/bin/python
    if ! cmp -s scripts/requirements.txt "$venv/installed.txt"; then
        mkdir -p "$hasten_cache" &&
            python3 -m venv --clear "$venv" &&
            "$python" -m pip install --quiet --only-binary=:all: -r scripts/requirements.txt &&
            cp scripts/requirements.txt "$venv/installed.txt"
    fi
}

# deep_python: the same with the packages of the deep tests.
deep_python() {
    test_python || return 1
    if ! cmp -s scripts/requirements-deep.txt "$venv/installed-deep.txt"; then
        "$python" -m pip install --quiet --only-binary=:all: -r scripts/requirements-deep.txt &&
            cp scripts/requirements-deep.txt "$venv/installed-deep.txt"
    fi
}
