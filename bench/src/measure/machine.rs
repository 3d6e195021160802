//! The facts stated beside every published figure: machine, versions, date.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// Where and with what the figures were taken.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The version of the library.
    pub cygnet: &'static str,
    /// The compiler that built this program.
    pub rustc: &'static str,
    /// The processor's model name.
    pub cpu: String,
    /// Cores that the process may use.
    pub cores: usize,
    /// The kernel's version.
    pub kernel: String,
    /// The day, in UTC.
    pub date: String,
}

impl Machine {
    /// The machine and its system in one line.
    pub fn line(&self) -> String {
        let Machine { cpu, cores, kernel, .. } = self;
        format!("{cpu}, {cores} cores, Linux {kernel}")
    }

    /// This machine, today.
    pub fn here() -> Machine {
        Machine {
            cygnet: env!("CARGO_PKG_VERSION"),
            rustc: env!("CYGNET_BENCH_RUSTC"),
            cpu: cpu(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned()),
            date: date(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())),
        }
    }
}

/// Extracts the model from the kernel's description. ARM kernels give only a part number.
fn cpu(info: &str) -> String {
    let field = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    field("model name")
        .or_else(|| Some(format!("{}, part {}", std::env::consts::ARCH, field("CPU part")?)))
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Converts seconds since 1970 to a date of the proleptic Gregorian calendar (Hinnant's
/// `civil_from_days`).
fn date(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Busy time of all processors of the machine in seconds, including time stolen by the
/// hypervisor. `None` if the kernel does not report it.
pub fn busy_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|tick| tick.parse().ok()).collect();
    // Fields: user nice system idle iowait irq softirq steal. Guest time is part of user.
    let busy = [0, 1, 2, 5, 6, 7].iter().filter_map(|&at| ticks.get(at)).sum::<f64>();
    // For user space, the kernel counts in hundredths of a second on every architecture.
    Some(busy / 100.0)
}

/// Processor time in seconds of the children that this process has waited for, including their
/// own children. `None` if the kernel does not report it.
pub fn children_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name, in parentheses, may contain any character. Fields 16 and 17 are cutime
    // and cstime.
    let (_, fields) = stat.rsplit_once(')')?;
    let field = |at: usize| fields.split_whitespace().nth(at - 3)?.parse::<f64>().ok();
    Some((field(16)? + field(17)?) / 100.0)
}

/// Processor time that the process has used, on all its threads.
pub fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec that lives across the call and is borrowed for nothing
    // else; the kernel writes it and keeps no copy of the pointer.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "clock_gettime(CLOCK_PROCESS_CPUTIME_ID) failed");
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn days_have_their_dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_735_689_599), "2024-12-31");
        assert_eq!(date(1_735_689_600), "2025-01-01");
    }

    #[test]
    fn the_processor_has_a_name_on_both_architectures() {
        assert_eq!(cpu("processor : 0\nmodel name\t: A 1\n"), "A 1");
        assert!(cpu("CPU part\t: 0xd0c\n").ends_with("part 0xd0c"));
        assert!(!cpu("").is_empty());
    }

    #[test]
    fn busy_time_only_grows() {
        let before = busy_seconds().unwrap();
        assert!(busy_seconds().unwrap() >= before);
    }

    #[test]
    fn processor_time_passes_while_computing() {
        let before = cpu_time();
        let bound = Instant::now() + Duration::from_secs(60);
        while cpu_time() <= before {
            assert!(Instant::now() < bound, "a minute of computing took no processor time");
        }
    }

    #[test]
    fn processor_time_of_children_is_seen_after_their_end() {
        let before = children_seconds().unwrap();
        let loops = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
        std::process::Command::new("sh").args(["-c", loops]).status().unwrap();
        assert!(children_seconds().unwrap() > before);
    }
}
