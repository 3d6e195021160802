#!/usr/bin/env bash
# Runs every model (a unit test named `loom_...`) in every interleaving that the memory model
# allows, with at most three preemptions, or fewer if the model says so. LOOM_MAX_PREEMPTIONS
# lowers this bound for all models, or raises it for models without a bound of their own.
CHECK=loom
# shellcheck source=ci/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export RUSTFLAGS="--cfg loom"
export CARGO_TARGET_DIR=$CHECKOUT/target-loom
# Every transition of a record is asserted.
export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true
export LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3}

# Release, as models run for minutes without optimisation.
tests=(cargo test --release -p cygnet --lib)

run_tests 25 "${tests[@]}" loom_
must_fail loom 5 'Causality violation' 'test .*planted_loom.* FAILED' \
    -- "${tests[@]}" planted_loom -- --ignored
