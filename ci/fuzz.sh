#!/usr/bin/env bash
# Runs the fuzz targets of fuzz/ under AddressSanitizer, for a short while each.
#
#   ci/fuzz.sh                       each target for FUZZ_SECONDS seconds (20), from FUZZ_SEED, and
#                                    the negative controls
#   ci/fuzz.sh TARGET [OPTION...]    one target with these options of libFuzzer, until it fails or
#                                    is interrupted: a long run
#   ci/fuzz.sh TARGET FILE           one target with that input alone
#   ci/fuzz.sh minimize TARGET       reduces the kept corpus to the smallest one of equal coverage
#
# The kept inputs are in fuzz/corpus/TARGET. They run first, and also in `cargo test`. Inputs
# found on the way go to target-fuzz/corpus/TARGET, and failing inputs to target-fuzz/failed. A
# failing input that is copied to fuzz/corpus/TARGET as failed-SOMETHING becomes a regression
# test.
#
# The script needs only a stable toolchain and a C++ compiler: the crate libfuzzer-sys contains
# the source of libFuzzer, and the flags, which are those of cargo-fuzz, make the compiler count
# coverage.
CHECK=fuzz
# shellcheck source=ci/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_symbolizer
command -v c++ >/dev/null || need_packages g++

host=x86_64-unknown-linux-gnu
kept=$CHECKOUT/fuzz/corpus
found=$CHECKOUT/target-fuzz/corpus
failed=$CHECKOUT/target-fuzz/failed
targets=(sequence_arithmetic programs)
# An input takes milliseconds. One that takes this many seconds does not end.
patience=60
# As in simulation.sh, untried seeds are for runs by hand: FUZZ_SEED=$RANDOM, or a long run of one
# target.
seed=${FUZZ_SEED:-8}

export CARGO_TARGET_DIR=$CHECKOUT/target-fuzz
# Unstable flags of the stable toolchain. With --target they do not apply to build scripts.
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=address --cfg cygnet_asan --cfg fuzzing -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares
    -Cllvm-args=-simplifycfg-branch-fold-threshold=0"
# The same options as in asan.sh. A failed simulation leaks its stacks, but it ends the process
# anyway.
export ASAN_OPTIONS="detect_stack_use_after_return=0:detect_leaks=1:${ASAN_OPTIONS:-}"

limited 20 cargo build --release --locked --manifest-path fuzz/Cargo.toml --target "$host"
mkdir -p "$failed"

# fuzz TARGET OPTION...
fuzz() {
    local target=$1
    shift
    mkdir -p "$found/$target"
    "$CARGO_TARGET_DIR/$host/release/$target" -artifact_prefix="$failed/$target-" -timeout=$patience \
        -rss_limit_mb=4096 -len_control=0 -max_len=300 -print_final_stats=1 "$@"
}

if (($# > 0)); then
    [[ $1 == minimize ]] || set -- run "$@"
    [[ " ${targets[*]} " == *" ${2:-} "* ]] || fail "no target '${2:-}'; there are: ${targets[*]}"
    if [[ $1 == minimize ]]; then
        target=$2
        smaller=$(mktemp -d "$CARGO_TARGET_DIR/smaller.XXXXXX")
        # One input for each place in the code, regardless of how many times the place was
        # reached.
        fuzz "$target" -set_cover_merge=1 -use_counters=0 -use_cmp=0 "$smaller" "$kept/$target" "$found/$target"
        # Inputs that once failed stay, whatever their coverage.
        find "$kept/$target" -type f ! -name 'failed-*' -delete
        find "$smaller" -type f -exec mv -t "$kept/$target" {} +
        rmdir "$smaller"
    elif [[ -f ${3:-} ]]; then
        fuzz "$2" "$3"
    else
        target=$2
        shift 2
        fuzz "$target" "$@" "$found/$target" "$kept/$target"
    fi
    exit
fi

# Independent of earlier runs: only kept inputs and random strings.
note "seed $seed (the same again: FUZZ_SEED=$seed)"
strings=$LOGS/strings
mkdir "$strings"
RANDOM=$seed
for number in {1..300}; do
    string=
    for _ in {1..200}; do
        printf -v byte '\\x%02x' $((RANDOM & 255))
        string+=$byte
    done
    printf '%b' "$string" >"$strings/$number"
done

for target in "${targets[@]}"; do
    log=$LOGS/$target.log
    mkdir -p "$LOGS/found"
    inputs=$(find "$kept/$target" "$strings" -type f | wc -l)
    fuzz "$target" -seed="$seed" -max_total_time="${FUZZ_SECONDS:-20}" "$LOGS/found" "$kept/$target" "$strings" \
        >"$log" 2>&1 </dev/null || { tail -n 80 "$log" | sed 's/^/    | /' >&2; fail "$target found a failing input"; }
    rm -r "$LOGS/found"
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    ((${runs:-0} > inputs)) || { tail -n 20 "$log" >&2; fail "$target made only ${runs:-no} runs"; }
    note "$target: $runs runs, $inputs of them with kept inputs and random strings, $(grep -Eo 'cov: [0-9]+' "$log" | tail -n 1) places reached"
done

# From random strings alone: the fuzzer must find the fault itself, and not replay a kept input.
for target in "${targets[@]}"; do
    must_fail "fuzz_$target" 10 'panicked at .*tests/' 'SUMMARY: libFuzzer: deadly signal' -- \
        "$CARGO_TARGET_DIR/$host/release/$target" -artifact_prefix="$LOGS/" -timeout=$patience \
        -seed="$seed" -len_control=0 -max_len=300 -max_total_time=300 "$strings"
done
