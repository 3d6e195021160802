//! Finding files, and opening them without exhausting file descriptors.
//!
//! # Why files are read in place
//!
//! A task opens, reads and closes its file without suspending in between. So the number of open
//! files never exceeds the number of workers, however many tasks there are, and a task that waits
//! for a descriptor waits for a running worker, never for a suspended coroutine.

use std::cell::RefCell;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::{names, report};

/// A file or directory that could not be read, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Failure {
    /// Its name.
    #[serde(flatten, serialize_with = "names::fields")]
    pub(crate) path: PathBuf,
    /// The reason, as the system words it.
    pub(crate) reason: String,
}

impl Failure {
    /// The failure of an operation on `path`.
    pub(crate) fn new(path: PathBuf, error: &io::Error) -> Self {
        Self { path, reason: reason(error) }
    }

    /// The line for the standard error.
    pub(crate) fn message(&self) -> String {
        format!("cygnet: {}: {}", names::for_message(&self.path), self.reason)
    }
}

/// The system's sentence for an error, without the number that the standard library appends.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match (error.raw_os_error(), text.rfind(" (os error ")) {
        (Some(_), Some(end)) => text[..end].to_owned(),
        _ => text,
    }
}

/// Whether `path`, as given on the command line, means the standard input.
///
/// A file found by walking has a directory in its name, so it is never mistaken for it.
pub(crate) fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Makes operations that open files wait for each other when file descriptors run out.
///
/// An operation that found no descriptor retries if the number of successes has grown since
/// before its attempt. Looking at the operations inside is not enough: the holders of the
/// descriptors may have left between the failure and that look.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    left: Condvar,
}

/// What a [`Gate`] counts.
#[derive(Default)]
struct GateState {
    /// Operations that are running.
    inside: usize,
    /// Operations that had a descriptor and have given it back.
    served: u64,
}

impl Gate {
    /// Runs `operation`, which opens one file and closes it before it returns. If no descriptor
    /// was free, waits until another operation has given one back and runs `operation` again.
    ///
    /// # Errors
    ///
    /// The errors of `operation`. A lack of descriptors is returned only if no other operation is
    /// inside and none has been served since the attempt began, so that waiting could not help.
    pub(crate) fn pass<T>(&self, mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            let mut inside = Inside::enter(self);
            let served_before = inside.served_before;
            let result = operation();
            if !result.as_ref().is_err_and(is_out_of_descriptors) {
                return result;
            }
            inside.served = false;
            drop(inside);
            let state = self
                .left
                .wait_while(self.lock(), |state| state.served == served_before && state.inside > 0)
                .unwrap_or_else(PoisonError::into_inner);
            if state.served == served_before {
                return result;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An operation inside a [`Gate`]. Its drop updates the counts, also if the operation panics.
struct Inside<'a> {
    gate: &'a Gate,
    served_before: u64,
    served: bool,
}

impl<'a> Inside<'a> {
    fn enter(gate: &'a Gate) -> Self {
        let mut state = gate.lock();
        state.inside += 1;
        Self { gate, served_before: state.served, served: true }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.inside -= 1;
        state.served += u64::from(self.served);
        drop(state);
        self.gate.left.notify_all();
    }
}

/// Whether the process or the system has no file descriptor left.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// All files to read for the paths of a command line, in no particular order.
///
/// Yields each given path that is not a directory, and each regular file below each given
/// directory. A directory is listed whole and closed before the next one is opened, so a deep
/// tree takes one descriptor instead of one per level.
pub(crate) struct Walk<'a> {
    given: slice::Iter<'a, PathBuf>,
    gate: &'a Gate,
    found: Vec<Result<PathBuf, Failure>>,
    directories: Vec<PathBuf>,
}

impl<'a> Walk<'a> {
    /// Walks below `given`.
    pub(crate) fn new(given: &'a [PathBuf], gate: &'a Gate) -> Self {
        Self { given: given.iter(), gate, found: Vec::new(), directories: Vec::new() }
    }

    /// Lists one directory.
    fn list(&mut self, directory: PathBuf) {
        // This is the type of the entry itself: a symbolic link below a path is not followed.
        let kind = |entry: fs::DirEntry| Ok((entry.path(), entry.file_type()?));
        // An entry keeps its directory open, so none leaves the gate.
        let list = || Ok(fs::read_dir(&directory)?.map(|e| e.and_then(kind)).collect::<Vec<_>>());
        let entries = match self.gate.pass(list) {
            Ok(entries) => entries,
            Err(error) => return self.found.push(Err(Failure::new(directory, &error))),
        };
        for entry in entries {
            match entry {
                Ok((path, kind)) if kind.is_dir() => self.directories.push(path),
                Ok((path, kind)) if kind.is_file() => self.found.push(Ok(path)),
                Ok(_) => {}
                Err(error) => self.found.push(Err(Failure::new(directory.clone(), &error))),
            }
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<PathBuf, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(found) = self.found.pop() {
                return Some(found);
            }
            if let Some(directory) = self.directories.pop() {
                self.list(directory);
                continue;
            }
            let given = self.given.next()?;
            if is_standard_input(given) {
                return Some(Ok(given.clone()));
            }
            match fs::metadata(given) {
                Ok(about) if about.is_dir() => self.directories.push(given.clone()),
                Ok(_) => return Some(Ok(given.clone())),
                Err(error) => return Some(Err(Failure::new(given.clone(), &error))),
            }
        }
    }
}

/// The order of `LC_ALL=C sort`. By bytes, `a/b` comes after `a-b`; `Path`'s own order goes by
/// components and has it before.
pub(crate) fn by_bytes(a: &Path, b: &Path) -> std::cmp::Ordering {
    a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes())
}

/// Calls `use_it` with a buffer of the worker's own, which is at least `size` bytes long.
///
/// A task borrows it from its first read to its last without suspending in between, so no other
/// task of the worker can find it borrowed.
pub(crate) fn with_buffer<R>(size: usize, use_it: impl FnOnce(&mut [u8]) -> R) -> R {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(size, 0);
        use_it(buffer)
    })
}

/// Reads once more if a signal has interrupted the read.
pub(crate) fn uninterrupted(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// The beginning of the closing line of a job that reads files.
pub(crate) fn summary(files: u64, bytes: u64, failures: &[Failure]) -> String {
    let unreadable = match failures.len() {
        0 => String::new(),
        count => format!(", {count} unreadable"),
    };
    format!("{}, {}{unreadable}", report::counted(files, "file"), report::human_bytes(bytes))
}

/// The first of the given paths that can be read only once, such as a pipe.
pub(crate) fn unrepeatable(given: &[PathBuf]) -> Option<&Path> {
    let repeatable = |about: Metadata| about.is_dir() || about.is_file();
    given
        .iter()
        .find(|path| is_standard_input(path) || fs::metadata(path).is_ok_and(|a| !repeatable(a)))
        .map(PathBuf::as_path)
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, mpsc};
    use std::thread;

    use super::*;

    fn out_of_descriptors() -> io::Error {
        io::Error::from_raw_os_error(libc::EMFILE)
    }

    #[test]
    fn a_reason_has_no_error_number() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(reason(&error), "No such file or directory");
        assert_eq!(reason(&io::Error::other("odd (os error 7)")), "odd (os error 7)");
    }

    #[test]
    fn without_descriptors_and_without_others_the_gate_gives_up() {
        let error = Gate::default().pass(|| Err::<(), _>(out_of_descriptors())).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
    }

    /// Fails for lack of a descriptor while another operation holds it. With `leaves_first` the
    /// holder leaves before the failure is known.
    fn fail_beside_another(leaves_first: bool) {
        let gate = Gate::default();
        let mut attempts = 0;
        let (entered, has_entered) = mpsc::channel();
        let (failed, has_failed) = mpsc::channel();
        let (left, has_left) = mpsc::channel();
        thread::scope(|s| {
            s.spawn(|| {
                gate.pass(move || {
                    entered.send(()).unwrap();
                    has_failed.recv().map_err(io::Error::other)
                })
                .unwrap();
                left.send(()).unwrap();
            });
            has_entered.recv().unwrap();
            gate.pass(|| {
                attempts += 1;
                if attempts > 1 {
                    return Ok(());
                }
                failed.send(()).unwrap();
                if leaves_first {
                    has_left.recv().unwrap();
                }
                Err(out_of_descriptors())
            })
            .unwrap();
        });
        assert_eq!(attempts, 2);
    }

    #[test]
    fn without_descriptors_the_gate_waits_for_operations_inside_and_misses_none_that_left() {
        fail_beside_another(false);
        fail_beside_another(true);
    }

    #[test]
    fn if_no_operation_has_a_descriptor_none_waits_for_ever() {
        let gate = Gate::default();
        let together = Barrier::new(3);
        thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    let mut first = true;
                    let error = gate.pass(|| {
                        if std::mem::take(&mut first) {
                            together.wait();
                        }
                        Err::<(), _>(out_of_descriptors())
                    });
                    assert!(error.is_err());
                });
            }
        });
    }

    #[test]
    fn a_walk_finds_nothing_for_no_paths() {
        assert_eq!(Walk::new(&[], &Gate::default()).count(), 0);
    }
}
