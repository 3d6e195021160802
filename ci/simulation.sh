#!/usr/bin/env bash
# Runs the tests, optimised, with debug assertions and overflow checks: first on real threads, and
# then every behaviour test in simulation, with as many seeds as there is time for, the same ones
# each time. A test that cannot be simulated gives a reason (`common::real!`), and a program
# without simulated tests is listed below. Tests that build no runtime have nothing to simulate,
# and are counted.
#
# One build serves both: on real threads, this is the library with the feature `sim`, outside a
# simulation. Without the feature, `cargo test` covers the assertions and `cargo test --release`
# the optimised code. The profile `checked` is in Cargo.toml.
#
#   CYGNET_SIM_SEEDS, CYGNET_SIM_SECONDS   limits for each test
#   CYGNET_SIM_REPORT                      a file for the list of all tests and their results
#   CYGNET_SIM_FIRST                       the first of the fresh seeds, which is printed
#   ci/simulation.sh PROGRAM...            only these programs
CHECK=simulation
# shellcheck source=ci/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CHECKOUT/target}
seeds=${CYGNET_SIM_SEEDS:-2000}
unset CYGNET_SIM_SEEDS
export CYGNET_SIM_SECONDS=${CYGNET_SIM_SECONDS:-0.6}
# Untried seeds are for runs by hand: CYGNET_SIM_FIRST=$RANDOM$RANDOM. A chance failure would hold
# up an author of unrelated changes.
export CYGNET_SIM_FIRST=${CYGNET_SIM_FIRST:-8}

# Programs in tests/ without a simulated test.
declare -A real=(
    [allocation]='an allocator that refuses'
    [auto_traits]='shows what types are'
    [coroutine]='coroutines without a scheduler'
    [documents]='reads documents'
    [hazards]='what breaks std itself'
    [idle]='what the system says of threads that rest'
    [leftovers]='counts the memory of a process'
    [memory]='the same'
    [pin_workers]='the cores of the machine'
    [planted]='the negative controls'
    [processes]='processes of their own, other programs, and real stacks'
    [programs]='programs as users write them, with real time limits'
    [sim]='simulates by itself'
    [tracing]='a foreign subscriber, which keeps spans by threads'
    [tokio]='a foreign executor with threads of its own'
    [warm_stacks]='the memory of stacks'
)
# Programs with several subjects, one per module. Each module needs a simulated test, or an entry
# here.
of_subjects=(tasks waits misuse par shutdown ring)
real_subjects=({tasks,waits,misuse,par,shutdown,ring}::common waits::alarms ring::{arithmetic,model,random})

programs=()
for file in tests/*.rs tests/*/main.rs; do
    program=${file#tests/}
    program=${program%/main.rs}
    program=${program%.rs}
    if [[ -n ${real[$program]:-} ]]; then
        unset "real[$program]"
        note "not simulated: $program"
    else
        programs+=("$program")
    fi
done
((${#real[@]} == 0)) || fail "listed as not simulated, but missing: ${!real[*]}"
(($# == 0)) || programs=("$@")

cargo_test=(cargo test --profile checked --package cygnet --features 'sim,futures,futures-io,tokio')
named=()
for program in "${programs[@]}"; do named+=(--test "$program"); done
limited 20 "${cargo_test[@]}" "${named[@]}" --no-run 2>&1 | tee "$LOGS/build.log"

if (($# == 0)); then
    least=1355 run_tests 10 "${cargo_test[@]}" --lib --tests
fi
export CYGNET_SIM_SEEDS=$seeds
note "seeds from $CYGNET_SIM_FIRST on (to repeat: CYGNET_SIM_FIRST=$CYGNET_SIM_FIRST), $CYGNET_SIM_SECONDS s for each test"
export CYGNET_SIM_LOG=$LOGS/simulated.log
: >"$LOGS/all.log"
for program in "${programs[@]}"; do
    binary=$(sed -n "s|^ *Executable tests/$program[./].*(\(.*\))$|\1|p" "$LOGS/build.log")
    [[ -n $binary ]] || fail "no program '$program' was built"
    : >"$CYGNET_SIM_LOG"
    if ! limited 10 "$binary" --quiet >"$LOGS/output.log" 2>&1; then
        # The output of a test in each of its runs is of no use.
        grep -vE '^(thread .* panicked at |note: )' "$LOGS/output.log" | tail -n 400 >&2
        fail "$program (to repeat: ci/simulation.sh $program, or one seed with CYGNET_SIM_SEED)"
    fi
    # Tests that are neither simulated nor marked.
    comm -23 <("$binary" --list 2>/dev/null | sed -n 's/: test$//p' | sort) \
        <({ cut -d ' ' -f 1 "$CYGNET_SIM_LOG"; "$binary" --list --ignored | sed -n 's/: test$//p'; } | sort) \
        >"$LOGS/plain.log"
    grep -q ' simulated ' "$CYGNET_SIM_LOG" || fail "no test of '$program' was simulated"
    if [[ " ${of_subjects[*]} " == *" $program "* ]]; then
        while read -r module; do
            [[ " ${real_subjects[*]} " != *" $program::$module "* ]] || continue
            grep -q "^$module::[^ ]* simulated " "$CYGNET_SIM_LOG" || fail "no test of '$program::$module' was simulated"
        done < <(sed -n 's/^mod \(.*\);$/\1/p' "tests/$program/main.rs")
    fi
    sed "s/^/$program::/; s/\$/ plain/" "$LOGS/plain.log" >>"$LOGS/all.log"
    sed "s/^/$program::/" "$CYGNET_SIM_LOG" >>"$LOGS/all.log"
    awk -v program="$program" -v plain="$(wc -l <"$LOGS/plain.log")" '
        $2 == "simulated" { tests[$1]; runs += $3; steps += $4 }
        $2 == "real" { left_out[$1] }
        END { printf "    %-18s %4d tests simulated, %8d runs, %7.1f million steps; %d real, %d plain\n",
            program, length(tests), runs, steps / 1e6, length(left_out), plain }' "$CYGNET_SIM_LOG"
done
note "not simulated, and why:"
awk '$2 == "real" { reason = $0; sub(/^[^ ]* real /, "", reason); if (!seen[$1]++) count[reason]++ }
    END { for (reason in count) printf "    %4d  %s\n", count[reason], reason }' "$LOGS/all.log" | sort -rn
awk '$2 == "simulated" { runs[$1] += $3; all += $3 }
    END {
        for (test in runs) if (runs[test] < 1000) few++
        printf "simulation: %d tests in %d runs; %d of them in less than 1000\n", length(runs), all, few
        if (all == 0) exit 1
    }' "$LOGS/all.log" || fail "there was no run"
if [[ -n ${CYGNET_SIM_REPORT:-} ]]; then cp "$LOGS/all.log" "$CYGNET_SIM_REPORT"; fi

must_fail simulation 5 'to run it again, with the test.s own lines: CYGNET_SIM_SEED=' 'a visit was not counted' 'test .*planted_simulation.* FAILED' \
    -- "${cargo_test[@]}" --test planted planted_simulation -- --ignored
