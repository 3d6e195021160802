//! Tells the program which compiler it was built with, and which versions of the peers: a figure is
//! stated beside its versions.

use std::env;
use std::fs;
use std::process::Command;

/// What `compare` measures and is not part of this repository.
const PEERS: &[&str] =
    &["async-executor", "chili", "corosensei", "generator", "may", "parking_lot", "rayon", "tokio"];
const LOCK: &str = "../Cargo.lock";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={LOCK}");
    println!("cargo:rerun-if-env-changed=RUSTC");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned());
    println!("cargo:rustc-env=CYGNET_BENCH_RUSTC={version}");
    let lock = fs::read_to_string(LOCK).unwrap_or_default();
    let peers: Vec<String> = PEERS.iter().filter_map(|name| locked(&lock, name)).collect();
    println!("cargo:rustc-env=CYGNET_BENCH_PEERS={}", peers.join(", "));
}

/// A package of the lock file with its version.
fn locked(lock: &str, name: &str) -> Option<String> {
    let mut lines = lock.lines().skip_while(|line| *line != format!("name = \"{name}\""));
    let version = lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')?;
    Some(format!("{name} {version}"))
}
