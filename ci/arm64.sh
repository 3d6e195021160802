#!/usr/bin/env bash
# The library's tests as ARM64 code, in an emulator.
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
# For tests that measure time or memory, or do a million of something: they do less, or nothing.
export CYGNET_EMULATED=1
# The emulator may accept the barrier without doing it; this is also the run of the fall-back.
export CYGNET_NO_MEMBARRIER=1

# One test at a time: a process that the emulator forks while another of its threads runs may inherit a lock of the emulator's that
# nobody gives back, and hang. Tests that need a process of their own do fork.
export RUST_TEST_THREADS=1
tests=(cargo test -p cygnet --target "$target")

run_side_by_side 25 "$CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER" "${tests[@]}"
run_tests 15 "${tests[@]}" --doc
# The fault is an instruction that no other processor has: x86_64 code would pass.
must_fail arm64 5 'planted fault in ARM64 code: rbit\(1\) = 0x8000000000000000' \
    'test planted_arm64 .*FAILED' -- "${tests[@]}" --test planted planted_arm64 -- --ignored
