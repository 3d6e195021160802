#!/usr/bin/env bash
# Every model (a unit test named `loom_...`) in every interleaving that the memory model allows,
# with at most three preemptions unless the model or LOOM_MAX_PREEMPTIONS says otherwise.
CHECK=loom
# shellcheck source=ci/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export RUSTFLAGS="--cfg loom"
export CARGO_TARGET_DIR=$CHECKOUT/target-loom
export LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3}

# Release: models run for minutes without optimisation.
tests=(cargo test --release -p cygnet --lib)

run_tests 25 "${tests[@]}" loom_
must_fail loom 5 'Causality violation' 'test .*planted_loom.* FAILED' \
    -- "${tests[@]}" planted_loom -- --ignored
