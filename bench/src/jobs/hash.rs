//! `run hash`: SHA-256 of every file below the paths, one coroutine per file.
//!
//! The root task walks and spawns while workers hash. It keeps at most [`WINDOW`] unjoined tasks,
//! so a run takes memory for the names and digests of the sorted list, and not for a task per
//! file.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::settled;
use crate::cli::HashArgs;
use crate::files::{self, Failure, Gate, Walk};
use crate::measure::progress::Progress;
use crate::names::{self, JsonName};
use crate::report::{self, Outcome};

/// Maximum number of spawned tasks that are not yet joined.
const WINDOW: usize = 1024;

/// Bytes per read.
const CHUNK: usize = 64 << 10;

thread_local! {
    /// Each worker's buffer. A task borrows it from its first read to its last without suspending
    /// in between, so no other task of the worker can find it borrowed.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Runs the job and prints its result.
pub(crate) fn run(args: &HashArgs) -> anyhow::Result<ExitCode> {
    super::check_repeatable(&args.paths, &args.common)?;
    let progress = Progress::new(!args.common.quiet, "files");
    let report = report::measure("hash", &args.common, &progress, || hash(&args.paths, &progress))?;
    report.publish(&args.common)
}

/// The digest and the size of one file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sum {
    digest: [u8; 32],
    bytes: u64,
}

/// The result of hashing. Both lists are sorted by the bytes of the path.
#[derive(Default, PartialEq)]
struct Hashes {
    files: Vec<(PathBuf, Sum)>,
    failures: Vec<Failure>,
}

impl Hashes {
    fn add(&mut self, result: Result<(PathBuf, Sum), Failure>) {
        match result {
            Ok(file) => self.files.push(file),
            Err(failure) => self.failures.push(failure),
        }
    }

    fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, sum)| sum.bytes).sum()
    }
}

/// Hashes everything below `paths`; runs as the root task.
fn hash(paths: &[PathBuf], progress: &Progress) -> Hashes {
    let gate = &Gate::default();
    let mut hashes = Hashes::default();
    cygnet::scope(|s| {
        let mut window = VecDeque::with_capacity(WINDOW);
        for found in Walk::new(paths, gate) {
            match found {
                Ok(path) => {
                    progress.expect(1);
                    window.push_back(s.spawn(move || hash_one(path, gate, progress)));
                    if window.len() > WINDOW
                        && let Some(oldest) = window.pop_front()
                    {
                        hashes.add(settled(oldest.join()));
                    }
                }
                Err(failure) => hashes.add(Err(failure)),
            }
        }
        for task in window {
            hashes.add(settled(task.join()));
        }
    });
    // By bytes, `a/b` comes after `a-b`. `Path`'s own order goes by components and has it before.
    hashes.files.sort_by(|(a, _), (b, _)| by_bytes(a, b));
    hashes.failures.sort_by(|a, b| by_bytes(&a.path, &b.path).then_with(|| a.cmp(b)));
    hashes
}

/// The order of `LC_ALL=C sort`.
fn by_bytes(a: &Path, b: &Path) -> std::cmp::Ordering {
    a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes())
}

/// The body of a task.
fn hash_one(path: PathBuf, gate: &Gate, progress: &Progress) -> Result<(PathBuf, Sum), Failure> {
    let sum = if files::is_standard_input(&path) {
        sum(io::stdin().lock())
    } else {
        gate.pass(|| sum(File::open(&path)?))
    };
    progress.step();
    match sum {
        Ok(sum) => Ok((path, sum)),
        Err(error) => Err(Failure::new(path, &error)),
    }
}

/// Hashes a file to its end.
fn sum(mut file: impl Read) -> io::Result<Sum> {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(CHUNK, 0);
        let mut hasher = Sha256::new();
        let mut bytes = 0;
        loop {
            match file.read(buffer) {
                Ok(0) => return Ok(Sum { digest: hasher.finalize().into(), bytes }),
                Ok(count) => {
                    hasher.update(&buffer[..count]);
                    bytes += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    })
}

impl Outcome for Hashes {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        self.files.iter().try_for_each(|(path, sum)| {
            names::write_checksum_line(out, &names::hex(&sum.digest), path)
        })
    }

    fn summary(&self) -> Cow<'_, str> {
        let mut summary = report::counted(self.files.len() as u64, "file");
        summary.push_str(", ");
        summary.push_str(&report::human_bytes(self.bytes()));
        if !self.failures.is_empty() {
            summary.push_str(&format!(", {} unreadable", self.failures.len()));
        }
        summary.into()
    }

    fn failures(&self) -> &[Failure] {
        &self.failures
    }
}

impl Serialize for Hashes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// Serialises the list one element at a time, as it may be long.
        struct List<'a>(&'a [(PathBuf, Sum)]);
        impl Serialize for List<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.0.iter().map(|(path, sum)| Entry {
                    name: JsonName::new(path),
                    bytes: sum.bytes,
                    sha256: names::hex(&sum.digest),
                }))
            }
        }
        /// One element.
        #[derive(Serialize)]
        struct Entry<'a> {
            #[serde(flatten)]
            name: JsonName<'a>,
            bytes: u64,
            sha256: String,
        }
        let mut object = serializer.serialize_struct("Hashes", 3)?;
        object.serialize_field("bytes", &self.bytes())?;
        object.serialize_field("files", &List(&self.files))?;
        object.serialize_field("failures", &self.failures)?;
        object.end()
    }
}
