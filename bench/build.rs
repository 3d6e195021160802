//! Passes the compiler's version and the peers' versions to the program, which states them beside
//! its figures.

use std::env;
use std::fs;
use std::process::Command;

/// Packages that `compare` measures beside cygnet.
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

/// The name and version of a package in the lock file.
fn locked(lock: &str, name: &str) -> Option<String> {
    let mut lines = lock.lines().skip_while(|line| *line != format!("name = \"{name}\""));
    let version = lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')?;
    Some(format!("{name} {version}"))
}
