#!/usr/bin/env bash
# Every model (a unit test named `loom_...`) in every interleaving that the memory model allows,
# with at most three preemptions, or fewer where the model says so. LOOM_MAX_PREEMPTIONS lowers the bound
# for all, or raises it for those that name none of their own.
CHECK=loom
# shellcheck source=ci/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export RUSTFLAGS="--cfg loom"
export CARGO_TARGET_DIR=$CHECKOUT/target-loom
# Every transition of a record is asserted.
export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true
export LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3}

# Release: models run for minutes without optimisation.
tests=(cargo test --release -p cygnet --lib)

run_tests 25 "${tests[@]}" loom_
must_fail loom 5 'Causality violation' 'test .*planted_loom.* FAILED' \
    -- "${tests[@]}" planted_loom -- --ignored
