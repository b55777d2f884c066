# PostgreSQL: a private cluster without fsync, sourced by script/services. The programs come from the system's package.
#
# The server refuses to run as root, and its user must be able to enter the data folder. Below a folder that only root may enter, as
# pytest's are, it cannot: then the data are in a temporary folder, which `stop` removes.

postgres_program() { # NAME: sets PROGRAM
    local folder
    PROGRAM=$(command -v "$1") && return
    for folder in $(printf '%s\n' /usr/lib/postgresql/*/bin /opt/homebrew/opt/postgresql@*/bin | sort -rV); do
        PROGRAM=$folder/$1
        [ ! -x "$PROGRAM" ] || return 0
    done
    return 1
}

postgres_lacks() { # prints what is missing on this machine, nothing when it can run
    local each
    for each in initdb postgres pg_isready; do
        postgres_program "$each" || { echo "PostgreSQL's '$each' (Debian: postgresql)" && return; }
    done
    [ "$(id -u)" != 0 ] || command -v setpriv >/dev/null || echo "setpriv, which starts PostgreSQL without root (Debian: util-linux)"
}

postgres_start() {
    local as=() tries data=$DIR/data user initdb postgres ready lacks
    lacks=$(postgres_lacks)
    [ -z "$lacks" ] || die "PostgreSQL needs $lacks"
    postgres_program initdb && initdb=$PROGRAM
    postgres_program postgres && postgres=$PROGRAM
    postgres_program pg_isready && ready=$PROGRAM
    take_ports 1
    if [ "$(id -u)" = 0 ]; then
        user=postgres
        id "$user" >/dev/null 2>&1 || user=nobody
        as=(setpriv "--reuid=$user" "--regid=$(id -gn "$user")" --clear-groups)
        if [ -s "$DIR/data.path" ]; then
            data=$(cat "$DIR/data.path")
        elif ! (cd / && "${as[@]}" test -x "$DIR"); then
            data=$(mktemp -d "${TMPDIR:-/tmp}/lycosa-postgres.XXXXXX")
        fi
        echo "$data" >"$DIR/data.path"
        mkdir -p "$data"
        chmod 700 "$data"
        chown -R "$user:" "$data"
    fi
    if [ ! -s "$data/PG_VERSION" ] && ! (cd / && "${as[@]}" "$initdb" -D "$data" -U crawl -E UTF8 --locale=C --auth=trust --no-sync) \
        >"$DIR/initdb.log" 2>&1; then
        tail -n 20 "$DIR/initdb.log" >&2
        die "initdb failed"
    fi
    # A killed server leaves its children behind for a moment, and until they end no other one starts on its data.
    for ((tries = 0; tries < 100; tries++)); do
        is_running postgres || (cd / && spawn postgres "${as[@]}" "$postgres" -D "$data" -h 127.0.0.1 -p "${PORT[0]}" -c unix_socket_directories= \
            -c fsync="${POSTGRES_FSYNC:-off}" -c shared_buffers=64MB -c max_wal_size=512MB -c max_connections=50)
        while is_running postgres && ! "$ready" -q -h 127.0.0.1 -p "${PORT[0]}" -U crawl -d postgres; do sleep 0.1; done
        is_running postgres && break
        tail -n 5 "$DIR/postgres.log" | grep -q 'still in use\|is another postmaster\|already exists' || break
        sleep 0.1
    done
    await_ready postgres "$ready" -q -h 127.0.0.1 -p "${PORT[0]}" -U crawl -d postgres
    printf 'POSTGRES=postgresql://crawl@127.0.0.1:%s/postgres\nPOSTGRES_PID=%s\n' "${PORT[0]}" "$(pid_of postgres)" | tee "$DIR/address"
}

postgres_stop() {
    local data
    end_all INT 20 postgres
    data=$(cat "$DIR/data.path" 2>/dev/null) || return 0
    [ "$data" = "$DIR/data" ] || rm -rf "$data" "$DIR/data.path"
}
