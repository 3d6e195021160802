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

    let source = match arch.as_str() {
        "x86_64" => "asm/x86_64.S",
        "aarch64" => "asm/aarch64.S",
        // lib.rs says what is wrong, in a sentence; an error here would hide it.
        _ => return,
    };
    if os != "linux" {
        return;
    }
    cc::Build::new().file(source).define("CYGNET_PREFIX", prefix.as_str()).compile("cygnet_asm");
}
