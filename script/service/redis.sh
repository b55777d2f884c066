# Redis without persistence, one server or several of which the others are replicas of the first; sourced by script/services. The program
# comes from the system's package (redis-server or valkey-server).

redis_program() { # sets PROGRAM
    PROGRAM=$(PATH=$PATH:/usr/sbin:/sbin command -v redis-server || PATH=$PATH:/usr/sbin:/sbin command -v valkey-server)
}

redis_lacks() { # prints what is missing on this machine, nothing when it can run
    redis_program || echo "redis-server (Debian: redis-server)"
}

redis_answers() { # PORT
    local line
    { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || return 1
    printf 'PING\r\n' >&3
    read -r -t 1 line <&3 || line=
    exec 3>&-
    [ "${line%$'\r'}" = +PONG ]
}

redis_start() { # [COUNT]
    local count=${1:-1} number lacks
    lacks=$(redis_lacks)
    [ -z "$lacks" ] || die "Redis needs $lacks"
    redis_program
    take_ports 3
    : >"$DIR/address"
    for ((number = 0; number < count; number++)); do
        mkdir -p "$DIR/data-$number"
        is_running "redis-$number" || spawn "redis-$number" "$PROGRAM" --bind 127.0.0.1 --port "${PORT[$number]}" --dir "$DIR/data-$number" \
            --save '' --appendonly no --daemonize no --repl-diskless-sync-delay 0
        await_ready "redis-$number" redis_answers "${PORT[$number]}"
        printf 'REDIS_%s=127.0.0.1:%s\nREDIS_PID_%s=%s\n' "$number" "${PORT[$number]}" "$number" "$(pid_of "redis-$number")" >>"$DIR/address"
    done
    cat "$DIR/address"
}

redis_stop() {
    end_all TERM 10 redis-0 redis-1 redis-2
}
