# OpenSearch: one node, sourced by script/services. The server without plug-ins comes from Maven Central, once.
#
# It refuses to run as root, as PostgreSQL does, so its folder is then a temporary one of another user, which `stop` removes.
# The transaction log is written at each request (the default), so `kill -9` loses nothing.

OPENSEARCH_VERSION=${OPENSEARCH_VERSION:-2.19.1}
OPENSEARCH_HOME=$CACHE/opensearch-$OPENSEARCH_VERSION

opensearch_lacks() { # prints what is missing on this machine, nothing when it can run
    local lacks
    lacks=$(java_lacks)
    [ -z "$lacks" ] || { echo "$lacks" && return; }
    [ "$(id -u)" != 0 ] || command -v setpriv >/dev/null || { echo "setpriv, which starts OpenSearch without root (Debian: util-linux)" && return; }
    [ -d "$OPENSEARCH_HOME" ] || command -v mvn >/dev/null || echo "Maven, which fetches OpenSearch (Debian: maven)"
}

opensearch_fetch() {
    local jars=$OPENSEARCH_HOME.zip
    [ ! -d "$OPENSEARCH_HOME" ] || return 0
    maven_fetch "OpenSearch $OPENSEARCH_VERSION" "$jars" <<XML
<dependency><groupId>org.opensearch.distribution.integ-test-zip</groupId><artifactId>opensearch</artifactId>
<version>$OPENSEARCH_VERSION</version><type>zip</type></dependency>
XML
    take_lock
    if [ ! -d "$OPENSEARCH_HOME" ]; then
        rm -rf "$OPENSEARCH_HOME.tmp"
        mkdir "$OPENSEARCH_HOME.tmp"
        python3 -m zipfile -e "$jars/opensearch-$OPENSEARCH_VERSION.zip" "$OPENSEARCH_HOME.tmp"
        mv "$OPENSEARCH_HOME.tmp/opensearch-$OPENSEARCH_VERSION" "$OPENSEARCH_HOME"
        rmdir "$OPENSEARCH_HOME.tmp"
    fi
    release_lock
}

opensearch_config() { # FOLDER
    cat >"$1/config/opensearch.yml" <<CONF
cluster.name: test
discovery.type: single-node
network.host: 127.0.0.1
http.port: ${PORT[0]}
transport.port: ${PORT[1]}
path.data: $1/data
path.logs: $1/logs
cluster.routing.allocation.disk.threshold_enabled: false
CONF
    cat >"$1/config/log4j2.properties" <<'CONF'
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %-5p %d{HH:mm:ss,SSS} %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
CONF
}

opensearch_start() {
    local as=() data=$DIR user lacks
    lacks=$(opensearch_lacks)
    [ -z "$lacks" ] || die "OpenSearch needs $lacks"
    opensearch_fetch
    take_ports 2
    if [ "$(id -u)" = 0 ]; then
        user=nobody
        as=(setpriv "--reuid=$user" "--regid=$(id -gn "$user")" --clear-groups)
        [ -s "$DIR/data.path" ] || mktemp -d "${TMPDIR:-/tmp}/lycosa-opensearch.XXXXXX" >"$DIR/data.path"
        data=$(cat "$DIR/data.path")
    fi
    mkdir -p "$data/config" "$data/data" "$data/logs" "$data/tmp"
    [ -d "$data/lib" ] || cp -r "$OPENSEARCH_HOME/lib" "$OPENSEARCH_HOME/modules" "$OPENSEARCH_HOME/plugins" "$data/"
    opensearch_config "$data"
    [ "$(id -u)" != 0 ] || chown -R "$user:" "$data"
    is_running opensearch || (cd / && spawn opensearch "${as[@]}" java -Xms"${OPENSEARCH_HEAP:-256m}" -Xmx"${OPENSEARCH_HEAP:-256m}" \
        -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+ExitOnOutOfMemoryError -Djava.awt.headless=true -Djava.security.manager=allow \
        -Djava.locale.providers=SPI,COMPAT -Dlog4j.shutdownHookEnabled=false -Dlog4j2.disable.jmx=true -Dio.netty.noUnsafe=true \
        --add-opens=java.base/java.io=ALL-UNNAMED "-Djava.io.tmpdir=$data/tmp" -Dopensearch.distribution.type=zip \
        "-Dopensearch.path.home=$data" "-Dopensearch.path.conf=$data/config" -cp "$data/lib/*" org.opensearch.bootstrap.OpenSearch)
    await_ready opensearch is_port_open "${PORT[0]}"
    printf 'OPENSEARCH=http://127.0.0.1:%s\nOPENSEARCH_PID=%s\n' "${PORT[0]}" "$(pid_of opensearch)" | tee "$DIR/address"
}

opensearch_stop() {
    end_all TERM 30 opensearch
    if [ -s "$DIR/data.path" ]; then
        rm -rf "$(cat "$DIR/data.path")"
        rm -f "$DIR/data.path"
    fi
}
