# Programs in Java: the runtime, and jars from Maven Central. Sourced by script/services.

MAVEN_PLUGIN=org.apache.maven.plugins:maven-dependency-plugin:3.8.1

java_lacks() { # prints what is missing on this machine, nothing when Java can run
    local version
    command -v java >/dev/null || { echo "Java 17 or newer (Debian: openjdk-17-jre-headless)" && return; }
    version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${version:-0}" -ge 17 ] || echo "Java 17 or newer, 'java' is ${version:-unknown}"
}

maven_fetch() { # NAME FOLDER: what the dependencies on standard input need at run time, once
    local work
    [ ! -d "$2" ] || return 0
    take_lock
    if [ ! -d "$2" ]; then
        work=$(mktemp -d "$CACHE/fetch.XXXXXX")
        {
            echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            echo '<groupId>test</groupId><artifactId>fetch</artifactId><version>1</version><packaging>pom</packaging><dependencies>'
            cat
            echo '</dependencies></project>'
        } >"$work/pom.xml"
        say "fetching $1 with Maven, once"
        if ! (cd "$work" && mvn -B -q -Dmaven.repo.local="$work/m2" "$MAVEN_PLUGIN:copy-dependencies" \
            -DincludeScope=runtime -DoutputDirectory="$work/lib" >"$work/log" 2>&1 9>&-); then
            tail -n 20 "$work/log" >&2
            rm -rf "$work"
            die "Maven could not fetch $1"
        fi
        mv "$work/lib" "$2"
        rm -rf "$work"
    fi
    release_lock
}
