#!/usr/bin/env bash
# The fuzz targets of fuzz/, under AddressSanitizer, for a short while each.
#
#   ci/fuzz.sh                            each target for FUZZ_SECONDS seconds (20), from FUZZ_SEED, and the negative controls
#   ci/fuzz.sh TARGET [OPTION...]         one target with these options of libFuzzer's, until it fails or is ended: a long run
#   ci/fuzz.sh TARGET FILE                that input alone
#   ci/fuzz.sh minimize TARGET            the corpus that is kept becomes the smallest one that reaches as much
#
# What is kept is in fuzz/corpus/TARGET, and is run first, also by `cargo test`. What is found on the way goes into
# target-fuzz/corpus/TARGET, and an input that fails into target-fuzz/failed: copied into fuzz/corpus/TARGET
# as failed-SOMETHING it is a regression test from then on.
#
# Nothing is needed but a stable toolchain and a C++ compiler: the crate libfuzzer-sys brings libFuzzer along as source, and
# the flags are those that make the compiler count what was reached, as cargo-fuzz has them.
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
# An input takes milliseconds. One that takes so long has no end.
patience=60
# As in simulation.sh, what nobody has tried is for a run by hand: FUZZ_SEED=$RANDOM, or one target for a long time.
seed=${FUZZ_SEED:-8}

export CARGO_TARGET_DIR=$CHECKOUT/target-fuzz
# Unstable flags of the stable toolchain; with --target they stay away from build scripts.
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=address --cfg cygnet_asan --cfg fuzzing -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares
    -Cllvm-args=-simplifycfg-branch-fold-threshold=0"
# As in asan.sh. A failed run of the simulation leaks its stacks, but ends the process anyway.
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
        # One input for each place in the code, and not for each number of times that it was reached.
        fuzz "$target" -set_cover_merge=1 -use_counters=0 -use_cmp=0 "$smaller" "$kept/$target" "$found/$target"
        # Those that failed once stay, whatever they reach.
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

# With no memory of earlier runs: what is kept, and strings at random.
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
        >"$log" 2>&1 </dev/null || { tail -n 80 "$log" | sed 's/^/    | /' >&2; fail "$target has found something"; }
    rm -r "$LOGS/found"
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    ((${runs:-0} > inputs)) || { tail -n 20 "$log" >&2; fail "$target has made only ${runs:-no} runs"; }
    note "$target: $runs runs, $inputs of them of what is kept and of strings at random, $(grep -Eo 'cov: [0-9]+' "$log" | tail -n 1) places reached"
done

# From strings at random alone: it must be found, and not because somebody has kept it.
for target in "${targets[@]}"; do
    must_fail "fuzz_$target" 10 'panicked at .*tests/' 'SUMMARY: libFuzzer: deadly signal' -- \
        "$CARGO_TARGET_DIR/$host/release/$target" -artifact_prefix="$LOGS/" -timeout=$patience \
        -seed="$seed" -len_control=0 -max_len=300 -max_total_time=300 "$strings"
done
