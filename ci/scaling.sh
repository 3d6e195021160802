#!/usr/bin/env bash
# Runs the tests of cygnet-scale, and then its workloads on modelled machines of 16 and 64 cores.
# Fails if an efficiency has fallen by more than a tenth below the stored table. A run depends
# neither on the machine nor on its load, but the compiler's layout of the code and of the stacks
# moves some figures by a few per cent.
#
# If a fall is wanted, the command that the check prints renews the table (docs/scaling.md).
CHECK=scaling
# shellcheck source=ci/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CHECKOUT/target}
table=bench/scale/table.json
scale=$CARGO_TARGET_DIR/release/cygnet-scale

# The table was measured with a release build. The tests run the same one.
run_tests 10 cargo test --release --package cygnet-scale --test command

limited 10 "$scale" --check "$table" ||
    fail "an efficiency fell, or a run failed (again, with places: docs/scaling.md)"

# A quick workload is enough.
raised=$LOGS/raised.json
awk -F '"efficiency":' 'NF > 1 { printf "%s\"efficiency\":%.6f%s\n", $1, $2 * 2, substr($2, match($2, /[,}]/)); next } 1' \
    "$table" >"$raised"
must_fail raised 2 'FELL: semaphore with 1000 ns of work, 64 cores' 'renews the table' \
    -- "$scale" --check "$raised" semaphore
