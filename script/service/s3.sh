# An S3 server on a folder: versitygw, sourced by script/services. Go builds it, once: 2 to 6 minutes, 45 MB. Tests start it themselves
# (tests/s3_server.py).

CACHE=${CACHE:-${SERVICES_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lycosa-services}}
VERSITYGW=github.com/versity/versitygw/cmd/versitygw
VERSITYGW_VERSION=v1.8.0

s3_lacks() { # prints what is missing on this machine, nothing when it can be had
    [ -x "$CACHE/versitygw-$VERSITYGW_VERSION" ] || command -v go >/dev/null ||
        echo "Go 1.24 or newer, which builds the S3 server versitygw (Debian's is too old)"
}

s3_fetch() (
    program=$CACHE/versitygw-$VERSITYGW_VERSION
    [ -x "$program" ] && exit
    mkdir -p "$CACHE"
    exec 9>"$CACHE/.lock-s3"
    flock -w 1800 9 || exit 1
    [ -x "$program" ] && exit
    work=$(mktemp -d "$CACHE/build.XXXXXX")
    echo "script/services: building versitygw $VERSITYGW_VERSION with Go, once; this takes some minutes" >&2
    if ! GOBIN=$work GOMODCACHE=$work/mod GOCACHE=$work/build GOFLAGS=-modcacherw CGO_ENABLED=0 \
        go install -p "${GO_JOBS:-2}" -trimpath -ldflags='-s -w' "$VERSITYGW@$VERSITYGW_VERSION" >"$work/log" 2>&1 9>&-; then
        tail -n 20 "$work/log" >&2
        rm -rf "$work"
        exit 1
    fi
    mv "$work/versitygw" "$program"
    rm -rf "$work"
)
