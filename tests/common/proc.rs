//! The process as the system sees it.

use std::fs;

/// The threads of this process.
pub(crate) fn threads() -> Vec<libc::pid_t> {
    let entries = fs::read_dir("/proc/self/task").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The threads with names that begin with `start`, and their names.
pub(crate) fn threads_named(start: &str) -> Vec<(libc::pid_t, String)> {
    let name = |id: libc::pid_t| fs::read_to_string(format!("/proc/self/task/{id}/comm")).ok();
    let named = threads().into_iter().filter_map(|id| Some((id, name(id)?.trim().to_owned())));
    named.filter(|(_, name)| name.starts_with(start)).collect()
}

/// A line about a thread: its number, name, state, and where it waits in the kernel.
pub(crate) fn thread_state(id: libc::pid_t) -> String {
    let read = |what: &str| {
        let text = fs::read_to_string(format!("/proc/self/task/{id}/{what}")).unwrap_or_default();
        text.trim().to_owned()
    };
    let state = field(&read("status"), "State:").unwrap_or_default();
    format!("thread {id} {:?}: {state}, {}", read("comm"), read("wchan"))
}

fn field(status: &str, name: &str) -> Option<String> {
    let line = status.lines().find(|line| line.starts_with(name))?;
    Some(line[name.len()..].trim().to_owned())
}

/// A number from the status of this process: `VmRSS:` and the like, in KiB.
pub(crate) fn status(name: &str) -> u64 {
    number("/proc/self/status", name)
}

/// How often a thread has given up its processor by itself.
pub(crate) fn voluntary_switches(id: libc::pid_t) -> u64 {
    number(&format!("/proc/self/task/{id}/status"), "voluntary_ctxt_switches:")
}

fn number(path: &str, name: &str) -> u64 {
    let status = fs::read_to_string(path).unwrap();
    let value = field(&status, name).unwrap_or_else(|| panic!("{path} has no {name}"));
    value.split_whitespace().next().unwrap().parse().unwrap()
}

/// Nanoseconds of processor time that a thread has used; none where the kernel does not count them.
pub(crate) fn processor_time(id: libc::pid_t) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/task/{id}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Resident memory of this process in bytes.
pub(crate) fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    // SAFETY: no precondition.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
}

/// The number of mappings of this process.
pub(crate) fn maps() -> usize {
    fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// Writes past the harness, which captures the output of tests.
pub(crate) fn write_to_stderr(text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        // SAFETY: the pointer and the length describe a slice.
        let written = unsafe { libc::write(2, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => rest = &rest[written..],
            _ => return,
        }
    }
}
