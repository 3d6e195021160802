#!/usr/bin/env bash
# Runs the library's tests under ThreadSanitizer, with an instrumented standard library.
CHECK=tsan
# shellcheck source=ci/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_packages rustc-web rust-web-src
need_symbolizer

target=x86_64-unknown-linux-gnu
# Debian's compiler lacks the sanitizer's runtime; rustup's has it.
runtime=lib/rustlib/$target/lib/librustc-stable_rt.tsan.a
if [[ ! -e /usr/$runtime ]]; then
    as_root cp "$(rustc --print sysroot)/$runtime" "/usr/$runtime"
fi
use_debian_rustc

export CARGO_TARGET_DIR=$CHECKOUT/target-tsan
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=thread --cfg cygnet_tsan"
use_quick_linker
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:suppressions=$CHECKOUT/ci/tsan.suppressions:${TSAN_OPTIONS:-}"

# No documentation tests, as each would be linked against the instrumented standard library.
tests=(cargo test -p cygnet -Zbuild-std --target "$target" --tests)

run_tests 30 "${tests[@]}"
must_fail tsan 5 'WARNING: ThreadSanitizer: data race' 'planted::planted_tsan' \
    -- "${tests[@]}" --test planted planted_tsan -- --ignored
