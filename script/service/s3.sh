# An S3 server on a folder: versitygw, sourced by script/services. Go builds it, once: 2 to 6 minutes, 45 MB. Tests start it themselves
# (tests/s3_server.py).

# shellcheck source=script/service/go_program.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/go_program.sh"
VERSITYGW=github.com/versity/versitygw/cmd/versitygw
VERSITYGW_VERSION=v1.8.0

s3_lacks() { # prints what is missing on this machine, nothing when it can be had
    [ -x "$CACHE/versitygw-$VERSITYGW_VERSION" ] || command -v go >/dev/null ||
        echo "Go 1.24 or newer, which builds the S3 server versitygw (Debian's is too old)"
}

s3_fetch() {
    go_program_fetch versitygw "$VERSITYGW" "$VERSITYGW_VERSION"
}
