# A program that Go builds, once; sourced by the files of such programs.

CACHE=${CACHE:-${SERVICES_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lycosa-services}}

go_program_fetch() ( # go_program_fetch NAME PACKAGE VERSION: builds $CACHE/NAME-VERSION, unless it is there
    name=$1 program=$CACHE/$1-$3
    [ -x "$program" ] && exit
    mkdir -p "$CACHE"
    exec 9>"$CACHE/.lock-$name"
    flock -w 1800 9 || exit 1
    [ -x "$program" ] && exit
    work=$(mktemp -d "$CACHE/build.XXXXXX")
    echo "script/services: building $name $3 with Go, once; this takes some minutes" >&2
    if ! GOBIN=$work GOMODCACHE=$work/mod GOCACHE=$work/build GOFLAGS=-modcacherw CGO_ENABLED=0 \
        go install -p "${GO_JOBS:-2}" -trimpath -ldflags='-s -w' "$2@$3" >"$work/log" 2>&1 9>&-; then
        tail -n 20 "$work/log" >&2
        rm -rf "$work"
        exit 1
    fi
    mv "$work/$name" "$program"
    rm -rf "$work"
)
