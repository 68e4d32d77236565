#!/bin/sh
# Say in one sentence what this machine lacks for Chronicle, or print the Python to use.
#
# usage: scripts/prerequisites.sh [PYTHON]
#
# On success the name of a usable Python is the only line on stdout and the exit status is 0.
# Otherwise one sentence with the remedy goes to stderr and the exit status is 1.
set -u

fail() {
    echo "Chronicle cannot be set up: $1" >&2
    exit 1
}

# A name on the PATH is not enough: version managers leave shims there that start nothing.
is_suitable() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
        >/dev/null 2>&1
}

choose_python() {
    if [ -n "${1:-}" ]; then
        is_suitable "$1" || fail "'$1' is not a Python 3.11, 3.12 or 3.13; name another with \
'make PYTHON=/path/to/python3.11 …', or leave PYTHON out."
        echo "$1"
        return
    fi
    for candidate in python3.13 python3.12 python3.11 python3 python; do
        if is_suitable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    found=$(python3 -c 'import sys; print("only Python %d.%d was found" % sys.version_info[:2])' \
        2>/dev/null) || found="no Python was found"
    fail "it needs Python 3.11, 3.12 or 3.13 and $found; install one (Debian, Ubuntu: 'apt \
install python3 python3-venv'; macOS: 'brew install python@3.13'; any system: \
https://www.python.org/downloads/), or name it with 'make PYTHON=/path/to/python3.11 …'."
}

# Prints the major version: 8 for "1.8.0_292", 17 for "17.0.15", 21 for "21" or "21-ea".
java_major() {
    "$1" -version 2>&1 | sed -n '
        s/.* version "1\.\([0-9][0-9]*\)[^0-9].*/\1/p;t
        s/.* version "\([0-9][0-9]*\).*/\1/p' | head -n 1
}

check_java() {
    remedy="install a Java 17 or 21 (Debian, Ubuntu: 'apt install default-jre-headless'; \
macOS: 'brew install openjdk@17'; any system: https://adoptium.net/) and put its 'java' on the \
PATH or set JAVA_HOME to it."
    if [ -n "${JAVA_HOME:-}" ]; then
        java="$JAVA_HOME/bin/java"
        where="JAVA_HOME ($JAVA_HOME)"
        [ -x "$java" ] || fail "JAVA_HOME is $JAVA_HOME and there is no bin/java in it; correct \
or unset JAVA_HOME, or $remedy"
    else
        java=java
        where="the PATH"
        command -v java >/dev/null 2>&1 || fail "Spark needs Java 17 or newer and there is no \
'java' on the PATH; $remedy"
    fi
    major=$(java_major "$java")
    [ -n "$major" ] || fail "the java on $where does not tell its version; $remedy"
    [ "$major" -ge 17 ] || fail "Spark needs Java 17 or newer and the one on $where is Java \
$major; $remedy"
}

python=$(choose_python "${1:-}") || exit 1
"$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || fail "$python has no module to make \
virtual environments; install it (Debian, Ubuntu: 'apt install python3-venv')."
check_java
echo "$python"
