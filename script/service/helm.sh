# Helm, sourced by script/services. Go builds it, once: 2 to 6 minutes, 62 MB. Tests of deploy/helm use it.

CACHE=${CACHE:-${SERVICES_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lycosa-services}}
HELM=helm.sh/helm/v3/cmd/helm
HELM_VERSION=v3.22.0

helm_lacks() { # prints what is missing on this machine, nothing when it is available
    [ -x "$CACHE/helm-$HELM_VERSION" ] || command -v go >/dev/null || echo "Go, which builds Helm"
}

helm_fetch() (
    program=$CACHE/helm-$HELM_VERSION
    [ -x "$program" ] && exit
    mkdir -p "$CACHE"
    exec 9>"$CACHE/.lock-helm"
    flock -w 1800 9 || exit 1
    [ -x "$program" ] && exit
    work=$(mktemp -d "$CACHE/build.XXXXXX")
    echo "script/services: building helm $HELM_VERSION with Go, once; this takes some minutes" >&2
    if ! GOBIN=$work GOMODCACHE=$work/mod GOCACHE=$work/build GOFLAGS=-modcacherw CGO_ENABLED=0 \
        go install -p "${GO_JOBS:-2}" -trimpath -ldflags='-s -w' "$HELM@$HELM_VERSION" >"$work/log" 2>&1 9>&-; then
        tail -n 20 "$work/log" >&2
        rm -rf "$work"
        exit 1
    fi
    mv "$work/helm" "$program"
    rm -rf "$work"
)
