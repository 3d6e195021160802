#!/usr/bin/env bash
# Runs the library's tests under AddressSanitizer, with leak detection.
CHECK=asan
# shellcheck source=ci/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_symbolizer

target=x86_64-unknown-linux-gnu
export CARGO_TARGET_DIR=$CHECKOUT/target-asan
# The sanitizers are part of the stable toolchain, behind the switch for unstable flags. With
# --target, the flags do not apply to build scripts and procedural macros.
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=address --cfg cygnet_asan"
export RUSTDOCFLAGS=$RUSTFLAGS
# detect_stack_use_after_return=0: the fake stacks of this option live in thread-local tables,
# which a frame on a coroutine's stack may outlive.
export ASAN_OPTIONS="detect_stack_use_after_return=0:detect_leaks=1:${ASAN_OPTIONS:-}"

tests=(cargo test -p cygnet --target "$target")

run_tests 25 "${tests[@]}"
must_fail asan 5 'ERROR: AddressSanitizer: heap-use-after-free' 'planted::planted_asan' \
    -- "${tests[@]}" --test planted planted_asan -- --ignored
must_fail leak 5 'ERROR: LeakSanitizer: detected memory leaks' 'planted::planted_leak' \
    -- "${tests[@]}" --test planted planted_leak -- --ignored
