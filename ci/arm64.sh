#!/usr/bin/env bash
# Runs the library's tests as ARM64 code in an emulator.
CHECK=arm64
# shellcheck source=ci/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_packages rustc-web libstd-rust-web-dev:arm64 gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
    qemu-user-static
use_debian_rustc

target=aarch64-unknown-linux-gnu
export CARGO_TARGET_DIR=$CHECKOUT/target-arm64
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
use_quick_linker
# Without `setarch -R` (no address randomisation) the emulator hangs at the first thread.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="setarch -R qemu-aarch64-static"
# Tests that measure time or memory, or do something a million times, do less of it, or nothing.
export CYGNET_EMULATED=1
# The emulator may accept membarrier without performing it. So this run also tests the fallback.
export CYGNET_NO_MEMBARRIER=1

# One test at a time. If the emulator forks while another of its threads runs, the child may
# inherit a lock of the emulator that is never released, and hang. Tests that need a process of
# their own do fork.
export RUST_TEST_THREADS=1
tests=(cargo test -p cygnet --target "$target")

run_side_by_side 25 "$CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER" "${tests[@]}"
run_tests 15 "${tests[@]}" --doc
# The planted fault uses an instruction that only ARM64 has, so x86_64 code would not report it.
must_fail arm64 5 'planted fault in ARM64 code: rbit\(1\) = 0x8000000000000000' \
    'test planted_arm64 .*FAILED' -- "${tests[@]}" --test planted planted_arm64 -- --ignored
