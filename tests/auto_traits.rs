//! The auto traits and the lifetime bounds of every public type: what docs/auto-traits.md says of them.
//! What must not compile is there and in the documentation of the types, as `compile_fail` examples.

use cygnet::coroutine::{self, Coroutine, CreateError, Current, ResumeError, Resumed, Yielder};
use cygnet::{
    ActorBody, ActorEnded, BlockingMetrics, BuildError, Builder, CallError, CancelHandle,
    Cancelled, CancelledFuture, Handle, HookGuard, Interval, IntervalTick, JoinError, Late,
    LocalTask, Metrics, MissedTicks, NoStack, PanicPayload, PanicReport, Pipeline, Promise, Reason,
    Runtime, RuntimeEnded, Scope, ScopeLease, ScopedTask, Sleep, SpawnError, Task, TaskActor,
    TaskBuilder, TaskError, TaskGroup, TaskId, TaskLocal, Timeout, TimeoutError, Unparker,
    UnresponsiveTask, Wait, WorkerMetrics, YieldTo, par, ring, shutdown, sync,
};
use static_assertions::{assert_impl_all, assert_not_impl_any};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::hash::Hash;
use std::marker::{PhantomData, PhantomPinned};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::Path;
use std::sync::MutexGuard;

/// Lacks `Send` and nothing else, as the others lack one auto trait each.
#[allow(dead_code)]
struct NotSend(PhantomData<MutexGuard<'static, ()>>);
#[allow(dead_code)]
struct NotSync(Cell<u8>);
impl RefUnwindSafe for NotSync {}
#[allow(dead_code)]
struct NotUnpin(PhantomPinned);
#[allow(dead_code)]
struct NotUnwindSafe(PhantomData<&'static mut ()>);
#[allow(dead_code)]
struct NotRefUnwindSafe(PhantomData<dyn Fn() + Send + Sync + Unpin>);
impl UnwindSafe for NotRefUnwindSafe {}

/// Whether a type implements a trait, as a constant: that of an `impl` of the type itself comes first, if
/// its bound holds.
macro_rules! implements {
    ($type:ty: $trait:path) => {{
        #[allow(dead_code)]
        trait Otherwise {
            const IS: bool = false;
        }
        impl<X: ?Sized> Otherwise for X {}
        struct Does<X: ?Sized>(PhantomData<X>);
        #[allow(dead_code)]
        impl<X: ?Sized + $trait> Does<X> {
            const IS: bool = true;
        }
        <Does<$type>>::IS
    }};
}

/// Whether a type implements a trait for each of six choices of its parameter `T`.
macro_rules! observed {
    ($type:ty: $trait:path) => {
        [
            observed!($type: $trait, u8),
            observed!($type: $trait, NotSend),
            observed!($type: $trait, NotSync),
            observed!($type: $trait, NotUnpin),
            observed!($type: $trait, NotUnwindSafe),
            observed!($type: $trait, NotRefUnwindSafe),
        ]
    };
    ($type:ty: $trait:path, $argument:ty) => {{
        #[allow(dead_code)]
        type T = $argument;
        implements!($type: $trait)
    }};
}

/// What `observed` gives if a cell of the table is right: yes, no, or if `T` implements that trait, or both `Send` and
/// `Sync`.
macro_rules! expected {
    (yes) => {
        [true; 6]
    };
    (no) => {
        [false; 6]
    };
    (both) => {
        [true, false, false, true, true, true]
    };
    ($trait:path) => {
        observed!(T: $trait)
    };
}

const fn same(a: [bool; 6], b: [bool; 6]) -> bool {
    let mut i = 0;
    while i < 6 {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

macro_rules! table {
    ($($name:literal, $type:ty: $send:tt $sync:tt $unpin:tt $unwind:tt $ref_unwind:tt;)*) => {
        $(const _: () = {
            assert!(same(observed!($type: Send), expected!($send)), "Send");
            assert!(same(observed!($type: Sync), expected!($sync)), "Sync");
            assert!(same(observed!($type: Unpin), expected!($unpin)), "Unpin");
            assert!(same(observed!($type: UnwindSafe), expected!($unwind)), "UnwindSafe");
            assert!(same(observed!($type: RefUnwindSafe), expected!($ref_unwind)), "RefUnwindSafe");
        };)*
        const TABLE: &[(&str, [&str; 5])] = &[$((
            $name,
            [
                stringify!($send),
                stringify!($sync),
                stringify!($unpin),
                stringify!($unwind),
                stringify!($ref_unwind),
            ],
        )),*];
    };
}

// A type with two parameters has a row for each.
table! {
    // Send Sync Unpin UnwindSafe RefUnwindSafe
    "Runtime", Runtime: yes yes yes yes yes;
    "Builder", Builder: yes yes yes no no;
    "Handle", Handle: yes yes yes yes yes;
    "PanicReport<'a>", PanicReport<'static>: no no yes no no;
    "BuildError", BuildError: yes yes yes no no;
    "Task<T>", Task<T>: Send Send yes yes yes;
    "LocalTask<T>", LocalTask<T>: no no yes yes yes;
    "Scope<'scope, 'env>", Scope<'static, 'static>: no yes yes no yes;
    "ScopedTask<'scope, T>", ScopedTask<'static, T>: Send Send yes yes yes;
    "TaskBuilder", TaskBuilder: yes yes yes yes yes;
    "TaskId", TaskId: yes yes yes yes yes;
    "TaskLocal<T>", TaskLocal<T>: yes yes yes yes yes;
    "Unparker", Unparker: yes yes yes yes yes;
    "YieldTo", YieldTo: yes yes yes yes yes;
    "Wait", Wait: yes yes yes yes yes;
    "JoinError", JoinError: yes yes yes no no;
    "PanicPayload", PanicPayload: yes yes yes no no;
    "NoStack", NoStack: yes yes yes yes yes;
    "Reason", Reason: yes yes yes yes yes;
    "Late<R>", Late<T>: Send Sync Unpin UnwindSafe RefUnwindSafe;
    "Sleep", Sleep: yes yes no no no;
    "Timeout<F>", Timeout<T>: Send Sync no no no;
    "TimeoutError", TimeoutError: yes yes yes yes yes;
    "RuntimeEnded", RuntimeEnded: yes yes yes yes yes;
    "Interval", Interval: yes yes yes yes yes;
    "IntervalTick<'a>", IntervalTick<'static>: yes yes no no no;
    "MissedTicks", MissedTicks: yes yes yes yes yes;
    "CancelHandle", CancelHandle: yes yes yes yes yes;
    "CancelledFuture", CancelledFuture: yes yes yes yes yes;
    "HookGuard", HookGuard: yes yes yes yes yes;
    "Promise<T>", Promise<T>: Send Send yes yes yes;
    "ScopeLease", ScopeLease: yes yes yes yes yes;
    "TaskGroup<E>", TaskGroup<T>: Send Send yes yes yes;
    "TaskError<E>", TaskError<T>: Send Sync Unpin no no;
    "Pipeline<S, E>", Pipeline<T, u8>: Send Sync Unpin UnwindSafe RefUnwindSafe;
    "Pipeline<S, E>", Pipeline<u8, T>: Send Sync Unpin UnwindSafe RefUnwindSafe;
    "TaskActor<S>", TaskActor<T>: yes yes yes yes yes;
    "ActorBody<S>", ActorBody<T>: Send Sync Unpin UnwindSafe RefUnwindSafe;
    "ActorEnded<F>", ActorEnded<T>: Send Sync Unpin UnwindSafe RefUnwindSafe;
    "CallError", CallError: yes yes yes yes yes;
    "Cancelled", Cancelled: yes yes yes yes yes;
    "SpawnError<F>", SpawnError<T>: Send Sync Unpin UnwindSafe RefUnwindSafe;
    "Metrics", Metrics: yes yes yes yes yes;
    "WorkerMetrics", WorkerMetrics: yes yes yes yes yes;
    "BlockingMetrics", BlockingMetrics: yes yes yes yes yes;
    "UnresponsiveTask", UnresponsiveTask: yes yes yes yes yes;
    "coroutine::Builder", coroutine::Builder: yes yes yes yes yes;
    "coroutine::Coroutine<In, Out, Ret>", Coroutine<T, u8, u8>: no no yes no no;
    "coroutine::Coroutine<In, Out, Ret>", Coroutine<u8, T, u8>: no no yes no no;
    "coroutine::Coroutine<In, Out, Ret>", Coroutine<u8, u8, T>: no no yes no no;
    "coroutine::Yielder<In, Out>", Yielder<T, u8>: no no Unpin no no;
    "coroutine::Yielder<In, Out>", Yielder<u8, T>: no no Unpin no no;
    "coroutine::Resumed<Out, Ret>", Resumed<T, u8>: Send Sync Unpin UnwindSafe RefUnwindSafe;
    "coroutine::Resumed<Out, Ret>", Resumed<u8, T>: Send Sync Unpin UnwindSafe RefUnwindSafe;
    "coroutine::ResumeError<In>", ResumeError<T>: Send Sync Unpin UnwindSafe RefUnwindSafe;
    "coroutine::CreateError", CreateError: yes yes yes yes yes;
    "coroutine::Current", Current: yes yes yes yes yes;
    "coroutine::State", coroutine::State: yes yes yes yes yes;
    "par::Items<T>", par::Items<T>: Send Send yes UnwindSafe RefUnwindSafe;
    "par::Chunks<'a, T>", par::Chunks<'static, T>: Sync Sync yes RefUnwindSafe RefUnwindSafe;
    "par::ChunksMut<'a, T>", par::ChunksMut<'static, T>: Send Sync yes no RefUnwindSafe;
    "par::Zip<A, B>", par::Zip<T, u8>: Send Sync Unpin UnwindSafe RefUnwindSafe;
    "par::Zip<A, B>", par::Zip<u8, T>: Send Sync Unpin UnwindSafe RefUnwindSafe;
    "par::AtLeast<S>", par::AtLeast<T>: Send Sync Unpin UnwindSafe RefUnwindSafe;
    "sync::Mutex<T>", sync::Mutex<T>: Send Send Unpin UnwindSafe no;
    "sync::MutexGuard<'a, T>", sync::MutexGuard<'static, T>: no Sync yes no no;
    "sync::MutexLock<'a, T>", sync::MutexLock<'static, T>: Send Send no no no;
    "sync::AsyncMutexGuard<'a, T>", sync::AsyncMutexGuard<'static, T>: Send Sync yes no no;
    "sync::RwLock<T>", sync::RwLock<T>: Send both Unpin UnwindSafe no;
    "sync::RwLockReadGuard<'a, T>", sync::RwLockReadGuard<'static, T>: no Sync yes no no;
    "sync::RwLockWriteGuard<'a, T>", sync::RwLockWriteGuard<'static, T>: no Sync yes no no;
    "sync::RwLockRead<'a, T>", sync::RwLockRead<'static, T>: both both no no no;
    "sync::RwLockWrite<'a, T>", sync::RwLockWrite<'static, T>: both both no no no;
    "sync::AsyncRwLockReadGuard<'a, T>", sync::AsyncRwLockReadGuard<'static, T>: both Sync yes no no;
    "sync::AsyncRwLockWriteGuard<'a, T>", sync::AsyncRwLockWriteGuard<'static, T>: both Sync yes no no;
    "sync::Condvar", sync::Condvar: yes yes yes yes yes;
    "sync::Semaphore", sync::Semaphore: yes yes yes yes yes;
    "sync::Permit<'a>", sync::Permit<'static>: yes yes yes yes yes;
    "sync::SemaphoreAcquire<'a>", sync::SemaphoreAcquire<'static>: yes yes no no no;
    "sync::Event", sync::Event: yes yes yes yes yes;
    "sync::EventWait<'a>", sync::EventWait<'static>: yes yes no no no;
    "sync::Barrier", sync::Barrier: yes yes yes yes yes;
    "sync::BarrierPassed", sync::BarrierPassed: yes yes yes yes yes;
    "sync::BarrierWait<'a>", sync::BarrierWait<'static>: yes yes no no no;
    "sync::Sender<T>", sync::Sender<T>: Send Send yes yes yes;
    "sync::Receiver<T>", sync::Receiver<T>: Send Send yes yes yes;
    "sync::SendFuture<'a, T>", sync::SendFuture<'static, T>: Send both no no no;
    "sync::RecvFuture<'a, T>", sync::RecvFuture<'static, T>: Send Send no no no;
    "sync::SendError<T>", sync::SendError<T>: Send Sync Unpin UnwindSafe RefUnwindSafe;
    "sync::TrySendError<T>", sync::TrySendError<T>: Send Sync Unpin UnwindSafe RefUnwindSafe;
    "sync::TryRecvError", sync::TryRecvError: yes yes yes yes yes;
    "sync::OneshotSender<T>", sync::OneshotSender<T>: Send Send yes yes yes;
    "sync::OneshotReceiver<T>", sync::OneshotReceiver<T>: Send Send yes yes yes;
    "sync::OneshotRecv<'a, T>", sync::OneshotRecv<'static, T>: Send Send no no no;
    "sync::OneshotClosed<'a, T>", sync::OneshotClosed<'static, T>: Send Send no no no;
    "sync::BroadcastSender<T>", sync::BroadcastSender<T>: both both yes yes yes;
    "sync::BroadcastReceiver<T>", sync::BroadcastReceiver<T>: both both yes RefUnwindSafe RefUnwindSafe;
    "sync::BroadcastRecv<'a, T>", sync::BroadcastRecv<'static, T>: both both no no no;
    "sync::BroadcastRecvError", sync::BroadcastRecvError: yes yes yes yes yes;
    "sync::BroadcastTryRecvError", sync::BroadcastTryRecvError: yes yes yes yes yes;
    "sync::WatchSender<T>", sync::WatchSender<T>: both both yes yes yes;
    "sync::WatchReceiver<T>", sync::WatchReceiver<T>: both both yes yes yes;
    "sync::WatchChanged<'a, T>", sync::WatchChanged<'static, T>: both both no no no;
    "sync::OnceCell<T>", sync::OnceCell<T>: Send both Unpin UnwindSafe no;
    "sync::Lazy<T>", sync::Lazy<T>: Send both Unpin UnwindSafe no;
    "sync::WaitError", sync::WaitError: yes yes yes yes yes;
    "ring::sequence::SequenceBarrier<S>", ring::sequence::SequenceBarrier<u8>: yes yes yes yes yes;
    "ring::sequence::SequenceBarrierGroup<S>", ring::sequence::SequenceBarrierGroup<u8>: yes yes yes yes yes;
    "ring::sequence::SequenceWait<'a, S>", ring::sequence::SequenceWait<'static, u8>: yes yes no no no;
    "ring::sequence::SingleProducerSequencer<S>", ring::sequence::SingleProducerSequencer<u8>: yes yes yes yes yes;
    "ring::sequence::SingleClaim<'a, S>", ring::sequence::SingleClaim<'static, u8>: yes yes yes no yes;
    "ring::sequence::MultiProducerSequencer<S>", ring::sequence::MultiProducerSequencer<u8>: yes yes yes yes yes;
    "ring::sequence::MultiClaim<'a, S>", ring::sequence::MultiClaim<'static, u8>: yes yes yes yes yes;
    "ring::sequence::SequenceRange<S>", ring::sequence::SequenceRange<u8>: yes yes yes yes yes;
    "ring::sequence::SequenceIter<S>", ring::sequence::SequenceIter<u8>: yes yes yes yes yes;
    "ring::sequence::WaitStrategy", ring::sequence::WaitStrategy: yes yes yes yes yes;
    "ring::TryNextError", ring::TryNextError: yes yes yes yes yes;
    "ring::RingBuilder<T>", ring::RingBuilder<T, ring::producers::One>: Send Send yes no no;
    "ring::Producer<T>", ring::Producer<T>: Send Send yes no no;
    "ring::MultiProducer<T>", ring::MultiProducer<T>: Send Send yes no no;
    "ring::Stage<T>", ring::Stage<T>: Send Send yes no no;
    "ring::Reader<T>", ring::Reader<T>: Send Send yes no no;
    "ring::Batch<'a, T>", ring::Batch<'static, T>: both both yes no no;
    "ring::BatchMut<'a, T>", ring::BatchMut<'static, T>: Send both yes no no;
    "ring::WriteBatch<'a, T>", ring::WriteBatch<'static, T>: Send Send yes no no;
    "shutdown::Swansong", shutdown::Swansong: yes yes yes yes yes;
    "shutdown::Guard", shutdown::Guard: yes yes yes yes yes;
    "shutdown::Guarded<T>", shutdown::Guarded<T>: Send Sync Unpin UnwindSafe RefUnwindSafe;
    "shutdown::Interrupt<T>", shutdown::Interrupt<T>: Send Sync Unpin UnwindSafe RefUnwindSafe;
    "shutdown::ShutdownCompletion", shutdown::ShutdownCompletion: yes yes yes yes yes;
    "shutdown::ShuttingDown", shutdown::ShuttingDown: yes yes yes yes yes;
    "shutdown::ShutdownState", shutdown::ShutdownState: yes yes yes yes yes;
    "shutdown::GuardReport", shutdown::GuardReport: yes yes yes yes yes;
    "shutdown::GuardReportEntry", shutdown::GuardReportEntry: yes yes yes yes yes;
    "shutdown::ShutdownReport", shutdown::ShutdownReport: yes yes yes yes yes;
}

/// As the document writes a cell of the row `name`.
fn written(name: &str, cell: &str) -> String {
    if matches!(cell, "yes" | "no") {
        return cell.to_owned();
    }
    let (_, parameters) =
        name.trim_end_matches('>').split_once('<').expect("a type with parameters");
    let types = parameters.split(", ").filter(|p| !p.starts_with('\''));
    let cell = if cell == "both" { "Send + Sync" } else { cell };
    let conditions: Vec<_> = types.map(|p| format!("`{p}: {cell}`")).collect();
    format!("if {}", conditions.join(", "))
}

#[test]
fn the_document_says_what_is_asserted_here() {
    let document = include_str!("../docs/auto-traits.md");
    let said: Vec<Vec<_>> = document
        .lines()
        .skip_while(|line| !line.starts_with("| type | `Send`"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.split('|').skip(1).take(6).map(|cell| cell.trim().to_owned()).collect())
        .collect();
    let mut asserted: Vec<Vec<_>> = TABLE
        .iter()
        .map(|(name, cells)| {
            let cells = cells.iter().map(|cell| written(name, cell));
            std::iter::once(format!("`{name}`")).chain(cells).collect()
        })
        .collect();
    asserted.dedup();
    assert_eq!(said, asserted);
}

/// Compiles if an error can be boxed for another thread, as `?` does in a function that returns any error.
fn boxes<E: Error + Send + Sync + 'static>() {}

macro_rules! errors {
    ($($(#[$condition:meta])? $name:literal, $type:ty;)*) => {
        const ERRORS: &[&str] = &[$($name),*];
        const _: () = {
            $($(#[$condition])? let _ = boxes::<$type>;)*
        };
    };
}

// Their parameters are the type of a value that is `Send` and `Sync`.
errors! {
    "ActorEnded", ActorEnded<u8>;
    "BroadcastRecvError", sync::BroadcastRecvError;
    "BroadcastTryRecvError", sync::BroadcastTryRecvError;
    "BuildError", BuildError;
    "CallError", CallError;
    "Cancelled", Cancelled;
    "CreateError", CreateError;
    #[cfg(feature = "sim")]
    "Failed", cygnet::sim::Failed;
    "JoinError", JoinError;
    "Late", Late<u8>;
    "NoStack", NoStack;
    "ResumeError", ResumeError<u8>;
    "RuntimeEnded", RuntimeEnded;
    "SendError", sync::SendError<u8>;
    #[cfg(feature = "futures")]
    "SinkError", sync::streams::SinkError<u8>;
    "SpawnError", SpawnError<fn()>;
    "TaskError", TaskError<std::fmt::Error>;
    "TimeoutError", TimeoutError;
    "TryNextError", ring::TryNextError;
    "TryRecvError", sync::TryRecvError;
    "TrySendError", sync::TrySendError<u8>;
    "WaitError", sync::WaitError;
}

#[test]
fn every_error_goes_into_a_box_that_crosses_threads() {
    fn visit(directory: &Path, found: &mut BTreeSet<String>) {
        for entry in directory.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, found);
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            let implemented = source.lines().filter(|line| line.starts_with("impl"));
            let types = implemented.filter_map(|line| line.split_once("Error for "));
            let name = |(_, of): (_, &str)| {
                of.split(|c: char| !c.is_alphanumeric()).next().map(str::to_owned)
            };
            found.extend(types.filter_map(name));
        }
    }
    let mut found = BTreeSet::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["coroutine", "par", "ring", "runtime", "shutdown", "sim", "sync"] {
        visit(&root.join(folder), &mut found);
    }
    assert_eq!(found, ERRORS.iter().map(|name| (*name).to_owned()).collect());
}

/// The names of the types that a module declares or passes on to its users.
fn types_of(source: &str) -> BTreeSet<&str> {
    fn capitalised(text: &str) -> impl Iterator<Item = &str> {
        text.split(|c: char| !c.is_alphanumeric())
            .filter(|word| word.starts_with(char::is_uppercase))
    }
    let mut types = BTreeSet::new();
    for item in source.split("\npub ").skip(1) {
        match item.split_once(' ') {
            Some(("use", rest)) => types.extend(rest.split(';').take(1).flat_map(capitalised)),
            Some(("struct" | "enum", rest)) => types.extend(capitalised(rest).take(1)),
            _ => {}
        }
    }
    types
}

#[test]
fn no_public_type_is_missing() {
    let names = |module: &str| -> BTreeSet<&str> {
        TABLE
            .iter()
            .map(|(name, _)| name.split('<').next().unwrap())
            .map(|path| path.rsplit_once("::").unwrap_or(("", path)))
            .filter(|(of, _)| *of == module)
            .map(|(_, name)| name)
            .collect()
    };
    let mut of_root = types_of(include_str!("../runtime/mod.rs"));
    assert!(of_root.remove("CancelHook") && of_root.remove("MemberResult"), "traits");
    of_root.insert("Pipeline");
    assert_eq!(of_root, names(""));
    assert_eq!(types_of(include_str!("../coroutine/mod.rs")), names("coroutine"));
    let mut of_par = types_of(include_str!("../par/mod.rs"));
    // Traits, which are passed on just so.
    for r#trait in ["Source", "IntoSource", "Integer"] {
        assert!(of_par.remove(r#trait));
    }
    assert_eq!(of_par, names("par"));
    assert_eq!(types_of(include_str!("../sync/mod.rs")), names("sync"));
    let mut of_sequence = types_of(include_str!("../ring/sequence/mod.rs"));
    assert!(of_sequence.remove("Sequence"), "a trait");
    assert_eq!(of_sequence, names("ring::sequence"));
    assert_eq!(types_of(include_str!("../ring/mod.rs")), names("ring"));
    // `Swansong` and its state are written in that file itself.
    let mut of_shutdown = types_of(include_str!("../shutdown/mod.rs"));
    of_shutdown.extend(["Swansong", "ShutdownState"]);
    assert_eq!(of_shutdown, names("shutdown"));
}

// The other traits of the public types.
assert_impl_all!(Runtime: Debug);
assert_not_impl_any!(Runtime: Clone);
assert_impl_all!(Builder: Debug, Default);
assert_impl_all!(Handle: Clone, Debug);
assert_impl_all!(Task<Cell<u8>>: Debug, Future);
assert_not_impl_any!(Task<u8>: Clone);
assert_impl_all!(LocalTask<Cell<u8>>: Debug);
assert_not_impl_any!(LocalTask<u8>: Clone, Future);
assert_impl_all!(ScopedTask<'static, Cell<u8>>: Debug);
assert_not_impl_any!(ScopedTask<'static, u8>: Clone, Future);
assert_impl_all!(Scope<'static, 'static>: Debug);
assert_not_impl_any!(Scope<'static, 'static>: Clone);
assert_impl_all!(Unparker: Clone, Debug);
assert_impl_all!(TaskBuilder: Debug, Default);
assert_impl_all!(TaskId: Copy, Ord, Hash, Debug, Display);
assert_impl_all!(TaskLocal<u8>: Debug);
assert_impl_all!(JoinError: Error);
assert_impl_all!(PanicPayload: Debug);
assert_not_impl_any!(PanicPayload: Clone);
assert_impl_all!(NoStack: Copy, Eq, Error);
assert_impl_all!(Cancelled: Clone, Eq, Error);
assert_impl_all!(BuildError: Error);
assert_impl_all!(SpawnError<Cell<u8>>: Error);
assert_impl_all!(PanicReport<'static>: Debug);
assert_impl_all!(Metrics: Clone, Eq, Debug, Default);
assert_impl_all!(WorkerMetrics: Clone, Eq, Debug, Default);
assert_impl_all!(BlockingMetrics: Clone, Eq, Debug, Default);
assert_impl_all!(Sleep: Debug, Future);
assert_not_impl_any!(Sleep: Clone);
assert_impl_all!(Timeout<std::future::Ready<Cell<u8>>>: Debug, Future);
assert_impl_all!(TimeoutError: Copy, Eq, Error, From<RuntimeEnded>);
assert_impl_all!(RuntimeEnded: Copy, Eq, Error);
assert_impl_all!(Interval: Debug);
assert_not_impl_any!(Interval: Clone);
assert_impl_all!(Pipeline<Cell<u8>, Cell<u8>>: Debug);
assert_not_impl_any!(Pipeline<u8, u8>: Clone);
assert_impl_all!(IntervalTick<'static>: Debug, Future);
assert_impl_all!(MissedTicks: Copy, Eq, Debug, Default);
assert_impl_all!(YieldTo: Copy, Eq, Debug);
assert_impl_all!(Wait: Copy, Eq, Debug, Default);
assert_impl_all!(par::Items<Cell<u8>>: Debug, ExactSizeIterator);
assert_not_impl_any!(par::Items<u8>: Clone);
assert_impl_all!(par::Chunks<'static, u8>: Clone, Debug);
assert_impl_all!(par::ChunksMut<'static, u8>: Debug);
assert_not_impl_any!(par::ChunksMut<'static, u8>: Clone);
assert_impl_all!(par::Zip<u8, u8>: Clone, Debug);
assert_impl_all!(par::AtLeast<u8>: Clone, Debug);
assert_impl_all!(sync::Mutex<u8>: Debug, Default, From<u8>);
assert_impl_all!(sync::RwLock<u8>: Debug, Default, From<u8>);
assert_impl_all!(sync::MutexGuard<'static, u8>: Debug, Display);
assert_not_impl_any!(sync::MutexGuard<'static, u8>: Clone);
assert_impl_all!(sync::Sender<Cell<u8>>: Clone, Debug);
assert_impl_all!(sync::Receiver<Cell<u8>>: Clone, Debug);
assert_impl_all!(sync::SendError<Cell<u8>>: Error);
assert_impl_all!(sync::TrySendError<Cell<u8>>: Error);
assert_impl_all!(sync::TryRecvError: Error, Copy, Eq);
assert_impl_all!(ring::TryNextError: Error, Copy, Eq);
assert_impl_all!(sync::OneshotSender<Cell<u8>>: Debug);
assert_impl_all!(sync::OneshotReceiver<Cell<u8>>: Debug);
assert_not_impl_any!(sync::OneshotSender<u8>: Clone);
assert_not_impl_any!(sync::OneshotReceiver<u8>: Clone);
assert_impl_all!(sync::BroadcastSender<Cell<u8>>: Clone, Debug);
assert_impl_all!(sync::BroadcastReceiver<Cell<u8>>: Clone, Debug);
assert_impl_all!(sync::BroadcastRecvError: Clone, Eq, Error, From<sync::WaitError>);
assert_impl_all!(sync::BroadcastTryRecvError: Copy, Eq, Error);
assert_impl_all!(sync::WatchSender<Cell<u8>>: Clone, Debug);
assert_impl_all!(sync::WatchReceiver<Cell<u8>>: Clone, Debug);
assert_impl_all!(sync::WaitError: Clone, Eq, Error, From<Cancelled>);

/// These compile, or not: nothing is run.
#[test]
fn lifetime_bounds_are_as_wide_as_they_may_be() {
    #[allow(dead_code)]
    fn a_scoped_handle_is_covariant<'short, 'long: 'short>(
        task: ScopedTask<'long, &'long str>,
    ) -> ScopedTask<'short, &'short str> {
        task
    }

    #[allow(dead_code)]
    fn a_task_is_covariant<'short>(task: Task<&'static str>) -> Task<&'short str> {
        task
    }

    #[allow(dead_code)]
    fn a_local_task_is_covariant<'short>(task: LocalTask<&'static str>) -> LocalTask<&'short str> {
        task
    }

    #[allow(dead_code)]
    fn block_on_borrows(rt: &Runtime, numbers: &mut [u8]) -> usize {
        rt.block_on(|| {
            numbers[0] = 1;
            numbers.len()
        })
    }

    #[allow(dead_code)]
    fn a_scoped_task_borrows_and_returns_borrows(text: &str) -> &str {
        cygnet::scope(|s| s.spawn(|| &text[1..]).join().unwrap())
    }

    #[allow(dead_code)]
    fn a_scoped_coroutine_borrows_and_returns_borrows(text: &str) -> &str {
        Coroutine::<(), (), &str>::scoped(
            |_, ()| &text[1..],
            |coroutine| coroutine.resume(()).unwrap().returned().unwrap(),
        )
    }

    /// What borrows nothing may be kept for ever.
    fn borrows_nothing<T: 'static>() {}
    borrows_nothing::<(Runtime, Builder, Handle, TaskBuilder, TaskId, Unparker, YieldTo)>();
    borrows_nothing::<(BuildError, JoinError, NoStack, Cancelled, Metrics, WorkerMetrics)>();
    borrows_nothing::<BlockingMetrics>();
    borrows_nothing::<(coroutine::Builder, CreateError, Current, coroutine::State)>();
}
