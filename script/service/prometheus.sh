# Prometheus on loopback, sourced by script/services. Where it is not installed, Debian's package (19 MB) is unpacked into the cache.
#
# PROMETHEUS_TARGETS are the HOST:PORT to scrape, with commas between them, once a second. PROMETHEUS_RULES is a file with rules.

prometheus_program() { # NAME: sets PROGRAM
    PROGRAM=$(command -v "$1") || PROGRAM=$CACHE/prometheus/usr/bin/$1
    [ -x "$PROGRAM" ]
}

prometheus_lacks() { # prints what is missing on this machine, nothing when it can run
    { prometheus_program prometheus && prometheus_program promtool; } || echo "Prometheus and promtool (Debian: prometheus)"
}

prometheus_fetch() { # as root on Debian; nothing is installed, and no server of the system starts
    local work
    [ -z "$(prometheus_lacks)" ] && return
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
    take_lock
    work=$(mktemp -d "$CACHE/prometheus.XXXXXX")
    (cd "$work" && timeout 300 apt-get -qq download prometheus >/dev/null 2>&1 && dpkg -x prometheus_*.deb unpacked) &&
        rm -rf "$CACHE/prometheus" && mv "$work/unpacked" "$CACHE/prometheus"
    rm -rf "$work"
    release_lock
    [ -z "$(prometheus_lacks)" ]
}

prometheus_answers() { # whether the server at PORT is ready
    local line
    exec 3<>"/dev/tcp/127.0.0.1/$1" || return 1
    printf 'GET /-/ready HTTP/1.0\r\n\r\n' >&3
    read -r line <&3
    exec 3>&-
    case $line in *" 200 "*) ;; *) return 1 ;; esac
}

prometheus_start() {
    local lacks targets=${PROMETHEUS_TARGETS:?the HOST:PORT to scrape}
    lacks=$(prometheus_lacks)
    [ -z "$lacks" ] || die "needs $lacks"
    prometheus_program prometheus
    take_ports 1
    {
        printf 'global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n'
        [ -z "${PROMETHEUS_RULES:-}" ] || printf 'rule_files: ["%s"]\n' "$PROMETHEUS_RULES"
        printf 'scrape_configs: [{job_name: lycosa, static_configs: [{targets: [%s]}]}]\n' "$targets"
    } >"$DIR/prometheus.yml"
    is_running prometheus || spawn prometheus "$PROGRAM" --config.file="$DIR/prometheus.yml" --storage.tsdb.path="$DIR/data" \
        --web.listen-address="127.0.0.1:${PORT[0]}" --log.level=warn
    await_ready prometheus prometheus_answers "${PORT[0]}"
    printf 'PROMETHEUS=127.0.0.1:%s\nPROMETHEUS_PID=%s\n' "${PORT[0]}" "$(pid_of prometheus)" | tee "$DIR/address"
}

prometheus_stop() { end_all TERM 20 prometheus; }
