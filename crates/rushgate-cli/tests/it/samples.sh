# Runs the samples of one page, for samples.rs: reads the path of a script per line, runs it in this shell with its
# output in PATH.out, and prints `done`. The shell ends at the first sample that fails.
set -eu -o pipefail
trap 'kill $(jobs -p) 2>/dev/null || :; wait' EXIT

curl() { command curl -sS --fail-with-body -w '\n' "$@"; }
redis-cli() { command redis-cli -p "$REDIS_PORT" "$@"; }
python3() { "$PYTHON" "$@"; }
rushgate() {
    case " $* " in
    *' --print-config '* | *' --check '* | *' --until-empty '*) command rushgate "$@" ;;
    ' serve '* | ' sale work '* | ' work '* | ' outbox relay '* | *' --follow '*) forever rushgate "$@" ;;
    *) command rushgate "$@" ;;
    esac
}

# Starts a program that does not end. Returns when a server accepts requests; the server before it is stopped.
server='' background=()
forever() {
    # After `&`, the page itself does not wait for it.
    if [ "$BASHPID" != $$ ]; then exec "$@" >>background.log 2>&1; fi
    case "$1 $2" in
    'rushgate serve')
        if [ -n "$server" ]; then
            kill "$server"
            wait "$server"
        fi
        rm -f started && mkfifo started
        env "$@" >started 2>>background.log &
        server=$!
        exec 9<started
        read -r -u 9
        ;;
    python3*)
        env "$PYTHON" "${@:2}" >>background.log 2>&1 &
        until (: </dev/tcp/127.0.0.1/"$RECEIVER_PORT") 2>/dev/null; do kill -0 $!; done
        ;;
    *)
        env "$@" >>background.log 2>&1 &
        background+=($!)
        # Wait until it handles TERM, so that `stop` tells a failure from a stop. Before it is the program, it is a copy of
        # this shell, which handles TERM, too.
        until grep -qx rushgate "/proc/$!/comm" && grep -qE '^SigCgt:.*[4-7c-f]...$' "/proc/$!/status"; do
            kill -0 $!
        done
        ;;
    esac
}

# Stops all programs. Fails if one of Rushgate's has failed.
stop() {
    local pid
    for pid in ${background[@]+"${background[@]}"} $server; do
        kill "$pid"
        wait "$pid"
    done
    # shellcheck disable=SC2046
    kill $(jobs -p) 2>/dev/null || :
    wait
    server='' background=()
}

# Stops all programs and removes the databases.
fresh() {
    stop
    rm -f -- *.db *.db-wal *.db-shm
}

while read -r script; do
    case $script in
    *.console)
        set +e
        source "$script" </dev/null >"$script.out" 2>&1
        set -e
        ;;
    *) source "$script" </dev/null >"$script.out" 2>&1 ;;
    esac
    echo done
done
