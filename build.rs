//! Assembles the context switch of the target's instruction set.
//!
//! Every symbol carries the package version, so that two versions of the library can be linked into
//! one program. The same prefix reaches the inline assembly through `CYGNET_SYMBOL_PREFIX`.

use std::env;

fn main() {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let os = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let prefix = format!("cygnet_{}_", version.replace(['.', '-', '+'], "_"));
    println!("cargo:rustc-env=CYGNET_SYMBOL_PREFIX={prefix}");
    println!("cargo:rerun-if-changed=asm");
    println!("cargo:rustc-check-cfg=cfg(cygnet_inline_switch)");

    let source = match arch.as_str() {
        "x86_64" => "asm/x86_64.S",
        "aarch64" => "asm/aarch64.S",
        // lib.rs says what is wrong, in a sentence; an error here would hide it.
        _ => return,
    };
    if os != "linux" {
        return;
    }
    if arch == "x86_64" && may_inline_switch() {
        println!("cargo:rustc-cfg=cygnet_inline_switch");
    }
    cc::Build::new().file(source).define("CYGNET_PREFIX", prefix.as_str()).compile("cygnet_asm");
}

/// Returns whether bare coroutines may use the inlined switch. It does not tell the sanitizers, and
/// its unwinding rules can be assembled only in functions that have some.
fn may_inline_switch() -> bool {
    // The compiler takes the names of its options with underscores, too.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default().replace('_', "-");
    let mut tables = flags.split('\x1f').filter_map(|flag| flag.split_once("force-unwind-tables="));
    let without_tables =
        tables.next_back().is_some_and(|(_, value)| ["n", "no", "off", "false"].contains(&value));
    let set = |name| env::var_os(name).is_some();
    !set("CARGO_CFG_CYGNET_ASAN") && !set("CARGO_CFG_CYGNET_TSAN") && !without_tables
}
