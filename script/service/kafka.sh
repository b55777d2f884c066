# Kafka: one broker or three (replication 3, min.insync 2), sourced by script/services. Jars come from Maven Central, once.

KAFKA_VERSION=${KAFKA_VERSION:-4.4.0}
LOG4J_VERSION=2.25.5
JARS=$CACHE/kafka-$KAFKA_VERSION

kafka_lacks() { # prints what is missing on this machine, nothing when it can run
    local lacks
    lacks=$(java_lacks)
    [ -z "$lacks" ] || { echo "$lacks" && return; }
    [ -d "$JARS" ] || command -v mvn >/dev/null || echo "Maven, which fetches Kafka (Debian: maven)"
}

kafka_fetch() {
    # kafka_2.13 4.4.0 names kafka-tools-api 4.4.0, which the registry lacks and a broker does not use.
    maven_fetch "Kafka $KAFKA_VERSION" "$JARS" <<XML
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$KAFKA_VERSION</version><exclusions>
<exclusion><groupId>org.apache.kafka</groupId><artifactId>kafka-tools-api</artifactId></exclusion></exclusions></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>$LOG4J_VERSION</version></dependency>
XML
}

kafka_config() { # BROKER COUNT
    local i=$1 n=$2 k voters='' more='' shown='' map='' broker name port proxy
    for ((k = 1; k <= n; k++)); do voters+=${voters:+,}$k@127.0.0.1:${PORT[2 * k - 1]}; done
    # Clients behind a proxy: a listener of their own, whose address is that of the proxy.
    while read -r broker name port proxy; do
        [ "$broker" = "$i" ] || continue
        more+=,$name://127.0.0.1:$port shown+=,$name://127.0.0.1:$proxy map+=,$name:PLAINTEXT
    done < <(cat "$DIR/listeners" 2>/dev/null)
    cat >"$DIR/broker$i.properties" <<CONF
process.roles=broker,controller
node.id=$i
controller.quorum.voters=$voters
listeners=PLAINTEXT://127.0.0.1:${PORT[2 * i - 2]},CONTROLLER://127.0.0.1:${PORT[2 * i - 1]}$more
advertised.listeners=PLAINTEXT://127.0.0.1:${PORT[2 * i - 2]}$shown
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT$map
log.dirs=$DIR/broker$i
auto.create.topics.enable=false
default.replication.factor=$n
min.insync.replicas=$(((n + 1) / 2))
offsets.topic.num.partitions=3
offsets.topic.replication.factor=$n
transaction.state.log.num.partitions=3
transaction.state.log.replication.factor=$n
transaction.state.log.min.isr=$(((n + 1) / 2))
share.coordinator.state.topic.num.partitions=3
share.coordinator.state.topic.replication.factor=$n
share.coordinator.state.topic.min.isr=$(((n + 1) / 2))
# quick reactions, for tests
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=${KAFKA_SESSION_MS:-3000}
controller.quorum.election.timeout.ms=500
controller.quorum.fetch.timeout.ms=1000
replica.lag.time.max.ms=5000
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
log.cleaner.backoff.ms=1000
log.cleaner.dedupe.buffer.size=8388608
log.retention.check.interval.ms=5000
log.initial.task.delay.ms=1000
# small, for a shared machine
num.network.threads=2
num.io.threads=4
num.replica.fetchers=1
background.threads=2
log.segment.bytes=67108864
log.index.size.max.bytes=1048576
CONF
}

kafka_brokers() { seq 1 "$(cat "$DIR/brokers")"; }

kafka_start() { # [BROKERS]
    local n i lacks list='' share=() options=() new=() from=()
    lacks=$(kafka_lacks)
    [ -z "$lacks" ] || die "Kafka needs $lacks"
    kafka_fetch
    [ -s "$DIR/brokers" ] || echo "${1:-1}" >"$DIR/brokers"
    n=$(cat "$DIR/brokers")
    read -r -a options <<<"${KAFKA_JAVA_OPTS:-}"
    take_ports $((2 * n))
    # Classes from an archive halve the time to start; the first broker that is stopped in good order leaves one.
    [ ! -s "$JARS.jsa" ] || share=("-XX:SharedArchiveFile=$JARS.jsa" -Xlog:cds=off)
    cat >"$DIR/log4j2.properties" <<'CONF'
rootLogger.level=WARN
rootLogger.appenderRefs=out
rootLogger.appenderRef.out.ref=Out
appender.out.type=Console
appender.out.name=Out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c)%n%ex
logger.ready.name=kafka.server.KafkaRaftServer
logger.ready.level=INFO
CONF
    [ -s "$DIR/cluster.id" ] || python3 -c 'import base64, uuid
print(base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("="))' >"$DIR/cluster.id"
    local java=(java -XX:+UseSerialGC -Djava.awt.headless=true "-Dlog4j2.configurationFile=$DIR/log4j2.properties")
    for i in $(kafka_brokers); do
        kafka_config "$i" "$n"
        [ ! -e "$DIR/broker$i/meta.properties" ] || continue
        "${java[@]}" -Xmx128m -XX:TieredStopAtLevel=1 "${share[@]}" -cp "$JARS/*" kafka.tools.StorageTool format \
            -t "$(cat "$DIR/cluster.id")" -c "$DIR/broker$i.properties" >"$DIR/format$i.log" 2>&1 ||
            { tail -n 20 "$DIR/format$i.log" >&2; die "the storage of broker $i could not be formatted"; }
    done
    for i in $(kafka_brokers); do
        from[i]=$(log_size "broker$i")
        is_running "broker$i" && continue
        new+=("$i")
        if [ ! -s "$JARS.jsa" ]; then
            share=()
            [ "$i" != 1 ] || share=("-XX:ArchiveClassesAtExit=$DIR/classes.jsa" -Xlog:cds=off)
        fi
        spawn "broker$i" "${java[@]}" "${share[@]}" "${options[@]}" -Xms"${KAFKA_HEAP:-384m}" -Xmx"${KAFKA_HEAP:-384m}" \
            -XX:+ExitOnOutOfMemoryError -cp "$JARS/*" kafka.Kafka "$DIR/broker$i.properties"
    done
    for i in "${new[@]}"; do await_ready "broker$i" has_logged "broker$i" "${from[i]}" 'Kafka Server started'; done
    for i in $(kafka_brokers); do list+=${list:+,}127.0.0.1:${PORT[2 * i - 2]}; done
    {
        echo "KAFKA=$list"
        for i in $(kafka_brokers); do echo "KAFKA_PID_$i=$(pid_of "broker$i")"; done
    } | tee "$DIR/address"
}

kafka_stop() {
    local labels=() i
    [ -s "$DIR/brokers" ] || return 0
    for i in $(kafka_brokers); do labels+=("broker$i"); done
    end_all TERM 30 "${labels[@]}"
    if [ -s "$DIR/classes.jsa" ] && [ -d "$JARS" ]; then
        cp "$DIR/classes.jsa" "$CACHE/jsa.$$" && mv "$CACHE/jsa.$$" "$JARS.jsa"
    fi
    rm -f "$DIR/classes.jsa"
}
