#!/usr/bin/env bash
# Removes the steps on which the library's protocol arguments rest (marked
# `// MUTANT(protocol.step): kind`) from a copy, one at a time, and fails if no model and no test
# catches a removal.
#
#   ci/mutate.sh                           all mutants
#   ci/mutate.sh NAME...                   the mutants of a protocol or a place, or a single mutant
#   ci/mutate.sh --sample N                N mutants spread over all, the same ones each time
#   ci/mutate.sh --list                    their names and places, without building anything
#   ci/mutate.sh --write docs/mutants.md   all mutants, with a table of the protocols as a document
#
# Negative controls: a mutant without consequence, which must survive, and one that must be caught
# (ci/mutate/mutants.rs). The tests of the rewriting program run too.
CHECK=mutate
# shellcheck source=ci/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

work=$CHECKOUT/target-mutate
mkdir -p "$work"
run_tests 5 cargo test --quiet --manifest-path ci/mutate/Cargo.toml --target-dir "$work/tool"
limited 5 cargo build --quiet --manifest-path ci/mutate/Cargo.toml --target-dir "$work/tool"
status=0
limited 240 "$work/tool/debug/cygnet-mutate" "$CHECKOUT" "$work" --jobs "$(nproc)" "$@" || status=$?
((status == 0)) || fail "status $status: see above"
