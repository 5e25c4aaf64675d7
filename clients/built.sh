# Sourced by the `test` of each client, in the folder of that client.

# Builds and installs the package with `build`, unless nothing in the folder has changed since. $1: file that marks this.
build_once() {
    if [ ! -e "$1" ] || [ -n "$(find . -name '.?*' -prune -o -newer "$1" -print | head -n 1)" ]; then
        rm -f "$1"
        build
        touch "$1"
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
