#!/usr/bin/env bash
# Takes what the arguments of the library lean on (the places that are marked `// MUTANT(protocol.step): kind`) out of a copy, one at a
# time, and fails if no model and no test notices one.
#
#   ci/mutate.sh                        all mutants
#   ci/mutate.sh NAME...                those of a protocol, of a place, or a single one
#   ci/mutate.sh --sample N             some, spread over all, the same each time
#   ci/mutate.sh --list                 their names and places; nothing is built
#   ci/mutate.sh --write docs/mutants.md   all, with the table as a document
#
# Its negative controls: a mutant of no consequence, which must survive, and one that must be caught (ci/mutate/mutants.rs), and
# the tests of the rewriting program.
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
