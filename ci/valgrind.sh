#!/usr/bin/env bash
# Runs small jobs and some tests under valgrind's memory checker. It sees what the compiled
# program really does, including the switches in assembly.
CHECK=valgrind
# shellcheck source=ci/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_packages valgrind

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CHECKOUT/target}
# --max-stackframe: stacks lie 64 KiB apart, and no frame of these programs is that large, so the
# stack pointer changes by more than this only at a switch of stacks. Memory that a program refers
# to until its end does not count as lost. --fair-sched: valgrind runs one thread at a time, and
# unless it is told to be fair, a task that yields in a loop keeps the other threads from running.
memcheck=(valgrind --fair-sched=yes --quiet --error-exitcode=9 --max-stackframe=30000)
leaks=(--leak-check=full --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect)

limited 10 cargo build -p cygnet-bench
for job in "nqueens 7" "wordcount docs" "hash docs"; do
    note "run $job"
    # shellcheck disable=SC2086 # the words of a job are its arguments
    limited 5 "${memcheck[@]}" "${leaks[@]}" "$CARGO_TARGET_DIR/debug/cygnet" run $job --workers 3 >/dev/null
done

# As in an emulator, everything takes many times as long.
export CYGNET_EMULATED=1
target=$(rustc -vV | sed -n 's/^host: //p')
runner=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$target")_RUNNER
tests=(cargo test -p cygnet)
# Some tests leak on purpose.
export "$runner=${memcheck[*]}"
run_tests 10 "${tests[@]}" --test hazards
run_tests 10 "${tests[@]}" --test tasks -- scopes::
run_tests 10 "${tests[@]}" --test waits -- parking::
must_fail asan 5 'Invalid read of size 8' 'planted::planted_asan' \
    -- "${tests[@]}" --test planted planted_asan -- --ignored
export "$runner=${memcheck[*]} ${leaks[*]}"
must_fail leak 5 'are definitely lost' 'planted::planted_leak' \
    -- "${tests[@]}" --test planted planted_leak -- --ignored
