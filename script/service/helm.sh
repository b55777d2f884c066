# Helm, sourced by script/services. Go builds it, once: 2 to 6 minutes, 62 MB. Tests of deploy/helm use it.

# shellcheck source=script/service/go_program.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/go_program.sh"
HELM=helm.sh/helm/v3/cmd/helm
HELM_VERSION=v3.22.0

helm_lacks() { # prints what is missing on this machine, nothing when it is available
    [ -x "$CACHE/helm-$HELM_VERSION" ] || command -v go >/dev/null || echo "Go, which builds Helm"
}

helm_fetch() {
    go_program_fetch helm "$HELM" "$HELM_VERSION"
}
