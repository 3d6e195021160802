# shellcheck shell=bash
# Shared functions of the scripts in this directory. Sourcing it changes to the top of the
# checkout.
#
# A check has two halves: the run that must pass, and its negative control, a planted fault that
# the same tool with the same build must report. Without the second half, a tool that is switched
# off looks like a tool that finds nothing.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck disable=SC2034 # for the scripts that source this file
CHECKOUT=$PWD

# The rustup toolchain goes before a distribution's rustc, which some of the scripts install.
if [[ -x ${CARGO_HOME:-${HOME:-/root}/.cargo}/bin/cargo ]]; then
    PATH=${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH
fi

# Each check sets its own compiler options, so settings of the caller's shell must not leak in.
unset RUSTC RUSTDOC RUSTFLAGS RUSTDOCFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET \
    CARGO_BUILD_RUSTFLAGS CYGNET_PLANT
# Nothing is built twice here, and incremental builds would keep more data than they build.
export CARGO_INCREMENTAL=0
# proptest draws the same random programs each time, as simulation.sh takes the same seeds; runs
# by hand use others. A chance failure would hold up an author of unrelated changes.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-8}
# Hundreds of tests panic on purpose, and a backtrace takes seconds in instrumented or emulated
# code. The step `test` checks that a backtrace can be printed on a coroutine's stack.
export RUST_BACKTRACE=0
export CARGO_NET_RETRY=${CARGO_NET_RETRY:-5} CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}

note() { printf '%s: %s\n' "${CHECK:-ci}" "$*"; }

fail() {
    printf '%s: FAILED: %s\n' "${CHECK:-ci}" "$*" >&2
    exit 1
}

# Runs a command as root.
as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo -n "$@"
    else
        fail "'$*' needs root"
    fi
}

# apt-get with retries. Its own lock option covers dpkg's lock but not the one of the package
# lists, and mirrors fail at times.
patient_apt() {
    local try
    for try in 1 2 3 4 5 6; do
        if as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 \
            -o Acquire::Retries=3 "$@" >"$LOGS/apt.log" 2>&1 </dev/null; then
            return 0
        fi
        note "apt-get $1: try $try failed: $(grep -m1 '^E:' "$LOGS/apt.log" || tail -n 1 "$LOGS/apt.log")"
        sleep $((try * 5))
    done
    sed 's/^/    | /' "$LOGS/apt.log" >&2
    return 1
}

installed() {
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed* ]]
}

# need_packages NAME...: installs the missing ones of these Debian packages. It costs nothing if
# none is missing. `name:arm64` is the package of another architecture.
need_packages() {
    local package architecture missing=()
    for package in "$@"; do
        installed "$package" || missing+=("$package")
    done
    if ((${#missing[@]} == 0)); then
        return 0
    fi
    note "installing ${missing[*]}"
    for package in "${missing[@]}"; do
        architecture=${package#*:}
        if [[ $package == *:* ]] && ! dpkg --print-foreign-architectures | grep -qx "$architecture"; then
            as_root dpkg --add-architecture "$architecture"
        fi
    done
    # The present lists may suffice. The installation reports packages that are really missing.
    patient_apt update || note "apt-get update failed, trying with the present lists"
    patient_apt install -y --no-install-recommends "${missing[@]}" || fail "cannot install ${missing[*]}"
}

# Without llvm-symbolizer the sanitizers' reports have addresses instead of names, and
# suppressions match nothing.
need_symbolizer() { command -v llvm-symbolizer >/dev/null || need_packages llvm; }

# Makes cargo use Debian's compiler, which has two things that rustup's lacks here: the standard
# library of another architecture, and the source of its own. Call it after need_packages.
use_debian_rustc() {
    local have want
    export RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc
    have=$("$RUSTC" --version | cut -d ' ' -f 2)
    want=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
    if [[ $(printf '%s\n' "$want" "$have" | sort -V | head -n 1) != "$want" ]]; then
        fail "Debian's rustc is $have, and the library needs $want"
    fi
    note "$("$RUSTC" --version)"
}

# Links with the linker of rustup's compiler, as rustup's compiler itself does: GNU's linker takes
# seconds for a test program.
use_quick_linker() {
    local linker
    linker=$(env -u RUSTC rustc --print sysroot)/lib/rustlib/$(env -u RUSTC rustc -vV | sed -n 's/^host: //p')/bin/gcc-ld
    if [[ -x $linker/ld.lld ]]; then
        RUSTFLAGS="${RUSTFLAGS:-} -Clink-arg=-B$linker -Clink-arg=-fuse-ld=lld"
        export RUSTFLAGS
    fi
}

# limited MINUTES COMMAND...: runs COMMAND, which fails if it does not end in time.
limited() {
    local minutes=$1 status=0
    shift
    timeout --kill-after=30 "${minutes}m" "$@" </dev/null || status=$?
    if ((status == 124 || status == 137)); then
        note "FAILED: did not end within $minutes minutes: $*" >&2
    fi
    return "$status"
}

# The negative control.
#
# must_fail NAME MINUTES PATTERN... -- COMMAND...: runs COMMAND with CYGNET_PLANT=NAME, which
# enables the planted fault of that name (tests/planted.rs). COMMAND must end with an error AND
# its output must match each of the extended regular expressions, which stand for the tool's own
# report and for the place. The output does not go to the log, in which readers look for failed
# tests.
must_fail() {
    local name=$1 minutes=$2 status=0 pattern patterns=() log
    shift 2
    while [[ $1 != -- ]]; do
        patterns+=("$1")
        shift
    done
    shift
    log=$LOGS/planted-$name.log
    CYGNET_PLANT=$name timeout --kill-after=30 "${minutes}m" "$@" >"$log" 2>&1 </dev/null || status=$?
    if ((status == 124 || status == 137)); then
        planted_failure "$log" "the planted fault '$name' did not end within $minutes minutes"
    fi
    if ((status == 0)); then
        # The last lines of a run of all programs do not show whether the planted test was
        # executed.
        grep -n "planted_$name" "$log" || true
        planted_failure "$log" "the planted fault '$name' was NOT reported: the run passed"
    fi
    for pattern in "${patterns[@]}"; do
        grep -Eq -- "$pattern" "$log" ||
            planted_failure "$log" "the planted fault '$name' ended with status $status, but without '$pattern'"
    done
    note "negative control: the planted fault '$name' was reported (status $status):"
    grep -Em1 -- "${patterns[0]}" "$log" | sed 's/^[= ]*/    | /'
}

planted_failure() {
    tail -n 60 "$1" | sed 's/^/    | /' >&2
    fail "$2"
}

# run_tests MINUTES COMMAND...: runs COMMAND, shows its output, and fails unless at least one test
# was executed, so that a filter that matches nothing does not pass for a check.
run_tests() {
    local minutes=$1 status=0 log=$LOGS/tests.log
    shift
    limited "$minutes" "$@" 2>&1 | tee "$log" || status=$?
    if ((status != 0)); then
        fail "status $status from: $*"
    fi
    count_tests "$log" "$*"
}

# count_tests LOG COMMAND: prints how many tests passed, and fails if they are fewer than $least
# (1).
count_tests() {
    local passed
    passed=$(sed -n 's/^test result: ok\. \([0-9]*\) passed.*/\1/p' "$1" | awk '{ n += $1 } END { print n + 0 }')
    ((passed >= ${least:-1})) || fail "$passed tests were executed, of at least ${least:-1}, by: $2"
    note "$passed tests passed"
}

# run_side_by_side MINUTES RUNNER COMMAND...: like `run_tests`, for a `cargo test` with one test
# at a time. It builds, then runs as many of the programs at once as there are cores, each by
# RUNNER, which is a single word with spaces.
run_side_by_side() {
    local minutes=$1 runner=$2 status=0 log=$LOGS/tests.log
    shift 2
    limited "$minutes" "$@" --no-run 2>&1 | tee "$LOGS/build.log" || fail "status $? from: $* --no-run"
    sed -n 's|^ *Executable .*(\(.*\))$|\1|p' "$LOGS/build.log" >"$LOGS/programs"
    mkdir "$LOGS/programs.d"
    # shellcheck disable=SC2016 # the inner shell's
    timeout --kill-after=30 "${minutes}m" xargs -P "$(nproc)" -I{} \
        bash -c 'exec $1 "$2" >"$3/$(basename "$2").log" 2>&1 </dev/null' -- "$runner" {} "$LOGS/programs.d" \
        <"$LOGS/programs" || status=$?
    # Shown at the end, as the outputs of simultaneous programs would be mixed up.
    tail -n +1 "$LOGS/programs.d"/*.log >"$log"
    cat "$log"
    ((status == 0)) || fail "status $status from the programs of: $*"
    count_tests "$log" "$*"
}

LOGS=$(mktemp -d "${TMPDIR:-/tmp}/cygnet-ci.XXXXXX")
trap 'rm -rf "$LOGS"' EXIT
