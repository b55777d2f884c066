# axe-core, which finds obstacles for people with disabilities in pages, sourced by script/services. npm fetches it, once: 3 MB. Tests of
# the operator's page use it.

AXE_VERSION=4.14.1
AXE=$CACHE/axe-core-$AXE_VERSION

axe_fetch() { # never fails: without it the tests that need it are skipped
    local work
    [ ! -s "$AXE/axe.min.js" ] || return 0
    command -v npm >/dev/null || { say "missing npm, which fetches axe-core: tests that need it will be skipped"; return 0; }
    mkdir -p "$CACHE"
    work=$(mktemp -d "$CACHE/axe.XXXXXX")
    if (cd "$work" && npm pack --silent "axe-core@$AXE_VERSION" >/dev/null 2>&1 && tar xzf ./*.tgz) && mkdir -p "$AXE"; then
        mv "$work/package/axe.min.js" "$work/package/LICENSE" "$AXE/"
    else
        say "axe-core could not be fetched: tests that need it will be skipped"
    fi
    rm -rf "$work"
}
