# Sourced by the `test` of each client, in the folder of that client.

# Prints what a build depends on: path and version of a tool, and each source with its checksum.
# $1: tool. $2: its option for the version.
inputs() {
    command -v "$1"
    "$1" "$2" 2>&1
    find . \( -name '.?*' -o -name node_modules -o -name dist -o -name target -o -name __pycache__ -o -name '*.egg-info' \) \
        -prune -o -type f -exec cksum {} + | sort -k 3
}

# Builds and installs the package with `build`, unless all inputs are those of the last build. $1: file that has them.
# The other arguments are those of `inputs`.
build_once() {
    built=$1
    shift
    # Before the build: a source that changes meanwhile is not in it.
    before=$(inputs "$@")
    if [ "$before" != "$(cat "$built" 2>/dev/null)" ]; then
        rm -f "$built"
        build
        echo "$before" >"$built"
    fi
}

# Ends the test if a Debian package is missing, which `needs` prints. `--needs` only prints them.
check_needs() {
    missing=$(needs)
    if [ "${1:-}" = --needs ]; then
        echo "$missing"
        exit 0
    elif [ -n "$missing" ]; then
        echo "Some tools are missing. Install them, then run this again: apt-get install" $missing >&2
        exit 2
    fi
}
