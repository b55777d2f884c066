# Processes of a service, and what it needs: sourced by script/services, whose DIR is the service's folder.
#
# A process is recorded as "pid starttime" in DIR/LABEL.pid: the start time guards against a pid that another process has by now.

say() { printf 'script/services: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

birth() { local s; s=$(cat "/proc/$1/stat" 2>/dev/null) || return 1; s=${s##*) }; echo "$s" | cut -d" " -f20; }
pid_of() { local pid rest; read -r pid rest <"$DIR/$1.pid"; echo "$pid"; }
is_running() { # LABEL
    local pid born state
    read -r pid born 2>/dev/null <"$DIR/$1.pid" || return 1
    [ "$(birth "$pid")" = "$born" ] || return 1
    state=$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null) || return 1
    [ "${state%% *}" != Z ]
}
spawn() { # LABEL COMMAND...: in a session of its own, output to LABEL.log, without our lock (9) and standard output
    local label=$1 pid
    shift
    setsid "$@" >>"$DIR/$label.log" 2>&1 </dev/null 9>&- &
    pid=$!
    echo "$pid $(birth "$pid")" >"$DIR/$label.pid"
}
await_end() { # SECONDS LABEL...
    local end=$((SECONDS + $1)) label
    shift
    for label; do
        while is_running "$label"; do
            [ "$SECONDS" -lt "$end" ] || return 1
            sleep 0.1
        done
    done
}
end_all() { # SIGNAL SECONDS LABEL...: asks first, kills then
    local signal=$1 grace=$2 label
    shift 2
    for label; do ! is_running "$label" || kill "-$signal" "$(pid_of "$label")" 2>/dev/null || true; done
    if ! await_end "$grace" "$@"; then
        say "still running after $grace s, killing: $*"
        for label; do ! is_running "$label" || kill -KILL "$(pid_of "$label")" 2>/dev/null || true; done
        await_end 10 "$@" || die "cannot end: $*"
    fi
    for label; do rm -f "$DIR/$label.pid"; done
}
await_ready() { # LABEL TEST...: until TEST succeeds; fails at once when the process ends
    local label=$1 end=$((SECONDS + ${SERVICES_TIMEOUT:-90}))
    shift
    until "$@" >/dev/null 2>&1; do
        if ! is_running "$label"; then
            tail -n 40 "$DIR/$label.log" >&2
            die "$label ended while starting"
        elif [ "$SECONDS" -ge "$end" ]; then
            tail -n 40 "$DIR/$label.log" >&2
            die "$label was not ready within ${SERVICES_TIMEOUT:-90} s"
        fi
        sleep 0.1
    done
}
is_port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
log_size() { stat -c %s "$DIR/$1.log" 2>/dev/null || echo 0; }
has_logged() { tail -c "+$(($2 + 1))" "$DIR/$1.log" | grep -q -- "$3"; } # LABEL FROM_BYTE PATTERN

take_ports() { # COUNT: free loopback ports in PORT, below the range of outgoing connections; kept in DIR/ports
    if [ ! -s "$DIR/ports" ]; then
        python3 - "$1" >"$DIR/ports" <<'PYTHON'
import random
import socket
import sys

held = []
while len(held) < int(sys.argv[1]):
    free = socket.socket()
    try:
        free.bind(("127.0.0.1", random.randrange(20000, 32000)))
        held.append(free)
    except OSError:
        free.close()
print(*(free.getsockname()[1] for free in held))
PYTHON
    fi
    read -r -a PORT <"$DIR/ports"
}

take_lock() { # one download at a time for all users of the cache
    mkdir -p "$CACHE"
    exec 9>"$CACHE/.lock"
    flock -w 1800 9 || die "another download has held $CACHE/.lock for half an hour"
}
release_lock() { exec 9>&-; }
