//! Memory of the process and of the machine, as the kernel counts it.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};

/// Resident memory and page tables of the process, in bytes.
pub(crate) fn used() -> anyhow::Result<f64> {
    let status = fs::read_to_string("/proc/self/status").context("cannot read /proc")?;
    Ok((field(&status, "VmRSS:")? + field(&status, "VmPTE:")?) * 1024.0)
}

/// Finds the number after a name, in KiB or without a unit, in a file of such lines.
pub(crate) fn field(text: &str, name: &str) -> anyhow::Result<f64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
        .with_context(|| format!("the kernel does not report {name}"))
}

/// Fails if the machine does not have `bytes` of available memory, with a margin.
pub(crate) fn need(bytes: usize) -> anyhow::Result<()> {
    let info = fs::read_to_string("/proc/meminfo").context("cannot read /proc")?;
    let available = field(&info, "MemAvailable:")? * 1024.0;
    ensure!(
        (bytes as f64) < available * 0.9,
        "needs {:.1} GiB of memory",
        bytes as f64 / f64::from(1 << 30)
    );
    Ok(())
}

/// Returns the memory in use when it has stopped changing, after five seconds at most.
pub(crate) fn settled() -> anyhow::Result<f64> {
    let mut before = used()?;
    for _ in 0..100 {
        thread::sleep(Duration::from_millis(50));
        let now = used()?;
        if now == before {
            break;
        }
        before = now;
    }
    Ok(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "VmRSSx:\t1 kB\nVmRSS:\t  42 kB\n";
        assert_eq!(field(text, "VmRSS:").unwrap(), 42.0);
        assert!(field(text, "VmPTE:").is_err() && field("", "VmRSS:").is_err());
    }

    #[test]
    fn too_much_memory_is_refused_in_a_sentence() {
        assert!(need(1 << 60).unwrap_err().to_string().contains("GiB"));
    }
}
