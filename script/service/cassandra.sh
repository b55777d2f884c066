# Cassandra: one node, sourced by script/services. Jars come from Maven Central, once.
#
# The limit of tombstones in a query is 20 times lower than usual, so that tests meet it.
# There is no distribution of Cassandra 5 on Maven Central, only its classes, so the configuration and the options of Java that Cassandra's own
# scripts give are written here. Writes reach the page cache at once (a commit log in mapped memory), so `kill -9` loses none.

CASSANDRA_VERSION=${CASSANDRA_VERSION:-5.0.9}
CASSANDRA_JARS=$CACHE/cassandra-$CASSANDRA_VERSION

cassandra_lacks() { # prints what is missing on this machine, nothing when it can run
    local lacks
    lacks=$(java_lacks)
    [ -z "$lacks" ] || { echo "$lacks" && return; }
    [ -d "$CASSANDRA_JARS" ] || command -v mvn >/dev/null || echo "Maven, which fetches Cassandra (Debian: maven)"
}

cassandra_fetch() {
    maven_fetch "Cassandra $CASSANDRA_VERSION" "$CASSANDRA_JARS" <<XML
<dependency><groupId>org.apache.cassandra</groupId><artifactId>cassandra-all</artifactId><version>$CASSANDRA_VERSION</version></dependency>
XML
}

cassandra_config() {
    cat >"$DIR/cassandra.yaml" <<CONF
cluster_name: test
num_tokens: 1
initial_token: 0
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1:${PORT[1]}"
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
storage_port: ${PORT[1]}
native_transport_port: ${PORT[0]}
start_native_transport: true
authenticator: ${CASSANDRA_AUTHENTICATOR:-AllowAllAuthenticator}
authorizer: ${CASSANDRA_AUTHORIZER:-AllowAllAuthorizer}
data_file_directories: ["$DIR/data/data"]
commitlog_directory: $DIR/data/commitlog
hints_directory: $DIR/data/hints
saved_caches_directory: $DIR/data/saved_caches
cdc_raw_directory: $DIR/data/cdc_raw
commitlog_sync: periodic
commitlog_sync_period: 10000ms
commitlog_segment_size: 16MiB
commitlog_disk_access_mode: mmap
memtable_heap_space: 64MiB
memtable_offheap_space: 64MiB
concurrent_reads: 8
concurrent_writes: 16
concurrent_compactors: 1
auto_snapshot: false
tombstone_warn_threshold: 1000
tombstone_failure_threshold: 5000
CONF
    cat >"$DIR/logback.xml" <<'CONF'
<configuration scan="false"><appender name="O" class="ch.qos.logback.core.ConsoleAppender"><encoder>
<pattern>%-5level %date{HH:mm:ss.SSS} %logger{0} - %msg%n</pattern></encoder></appender>
<root level="WARN"><appender-ref ref="O"/></root></configuration>
CONF
}

cassandra_start() {
    local each lacks open=() agent
    lacks=$(cassandra_lacks)
    [ -z "$lacks" ] || die "Cassandra needs $lacks"
    cassandra_fetch
    take_ports 2
    mkdir -p "$DIR/data"
    cassandra_config
    for each in java.base/{java.io,java.lang,java.lang.module,java.lang.reflect,java.math,java.net,java.nio,java.nio.charset,java.util} \
        java.base/java.util.concurrent{,.atomic,.locks} java.base/jdk.internal.{loader,math,misc,module,ref,reflect,util.jar} \
        java.base/sun.nio.ch java.management/{javax.management,sun.management} java.management.rmi/com.sun.jmx.remote.internal.rmi \
        java.rmi/sun.rmi.{registry,server,transport.tcp} jdk.management/com.sun.management.internal; do
        open+=("--add-opens=$each=ALL-UNNAMED" "--add-exports=$each=ALL-UNNAMED")
    done
    for agent in "$CASSANDRA_JARS"/jamm-*.jar; do break; done
    is_running cassandra || spawn cassandra java "${open[@]}" "-javaagent:$agent" -Djdk.attach.allowAttachSelf=true \
        -Xms"${CASSANDRA_HEAP:-512m}" -Xmx"${CASSANDRA_HEAP:-512m}" -Xss256k -XX:+UseSerialGC -XX:MaxDirectMemorySize=256m \
        -XX:+ExitOnOutOfMemoryError -Djava.awt.headless=true -Djava.net.preferIPv4Stack=true "-Dcassandra.config=file://$DIR/cassandra.yaml" \
        "-Dcassandra.storagedir=$DIR/data" "-Dlogback.configurationFile=$DIR/logback.xml" -Dcassandra-foreground=yes \
        -Dcassandra.skip_wait_for_gossip_to_settle=0 -Dcassandra.ring_delay_ms=1 -Dcassandra.superuser_setup_delay_ms=0 \
        "-Djava.io.tmpdir=$DIR" -cp "$CASSANDRA_JARS/*" org.apache.cassandra.service.CassandraDaemon
    await_ready cassandra is_port_open "${PORT[0]}"
    printf 'CASSANDRA=127.0.0.1:%s\nCASSANDRA_PID=%s\n' "${PORT[0]}" "$(pid_of cassandra)" | tee "$DIR/address"
}

cassandra_stop() { end_all TERM 30 cassandra; }
