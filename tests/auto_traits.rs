//! The auto traits of every public type, other traits that users rely on, and lifetime bounds, all
//! asserted at compile time. docs/auto-traits.md has the reasons. What must not compile is there
//! and in the documentation of the types, as `compile_fail` examples.

use cygnet::coroutine::{self, Coroutine, CreateError, Current, ResumeError, Resumed, Yielder};
use cygnet::ring::sequence;
use cygnet::*;
use static_assertions::{assert_impl_all, assert_not_impl_any};
use std::cell::Cell;
use std::error::Error;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::hash::Hash;
use std::marker::{PhantomData, PhantomPinned};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::MutexGuard;

// Each of these lacks one auto trait.
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

/// Whether a type implements a trait, as a constant: the one of the inherent `impl` comes first, if
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

/// Whether a type implements a trait, for each of six choices of its parameter `T`.
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

/// What `observed` has to give: always, never, if `T` implements that trait, or if it is `Send` and
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
    while i < 6 && a[i] == b[i] {
        i += 1;
    }
    i == 6
}

macro_rules! auto_traits {
    (@ $type:ty: $send:tt $sync:tt $unpin:tt $unwind:tt $ref_unwind:tt) => {
        const _: () = {
            assert!(same(observed!($type: Send), expected!($send)), "Send");
            assert!(same(observed!($type: Sync), expected!($sync)), "Sync");
            assert!(same(observed!($type: Unpin), expected!($unpin)), "Unpin");
            assert!(same(observed!($type: UnwindSafe), expected!($unwind)), "UnwindSafe");
            assert!(same(observed!($type: RefUnwindSafe), expected!($ref_unwind)), "RefUnwindSafe");
        };
    };
    ($($send:tt $sync:tt $unpin:tt $unwind:tt $ref_unwind:tt: $($type:ty),+;)*) => {
        $($(auto_traits!(@ $type: $send $sync $unpin $unwind $ref_unwind);)+)*
    };
}

// Send Sync Unpin UnwindSafe RefUnwindSafe. A type with several parameters is there for each of
// them.
auto_traits! {
    yes yes yes yes yes:
        Runtime, Handle, TaskBuilder, TaskId, TaskLocal<T>, Unparker, YieldTo, Wait, NoStack,
        Reason, TimeoutError, RuntimeEnded, Interval, MissedTicks, CancelHandle, CancelledFuture,
        HookGuard, ScopeLease, TaskActor<T>, CallError, Cancelled, Metrics, WorkerMetrics,
        BlockingMetrics, UnresponsiveTask, coroutine::Builder, CreateError, Current,
        coroutine::State, sync::Condvar, sync::Semaphore, sync::Permit<'static>, sync::Event,
        sync::Barrier, sync::BarrierPassed, sync::TryRecvError, sync::WaitError, sequence::SequenceBarrier<u8>,
        sequence::SequenceBarrierGroup<u8>, sequence::SingleProducerSequencer<u8>,
        sequence::MultiProducerSequencer<u8>, sequence::MultiClaim<'static, u8>,
        sequence::SequenceRange<u8>, sequence::SequenceIter<u8>, sequence::WaitStrategy,
        sequence::Count, sequence::TryClaimError,
        shutdown::Swansong, shutdown::Guard, shutdown::ShutdownCompletion,
        shutdown::ShuttingDown, shutdown::ShutdownState, shutdown::GuardReport,
        shutdown::GuardReportEntry, shutdown::ShutdownReport;
    yes yes yes no no: Builder, BuildError, JoinError, PanicPayload;
    no no yes no no:
        PanicReport<'static>, Coroutine<T, u8, u8>, Coroutine<u8, T, u8>, Coroutine<u8, u8, T>, Yielder<u8, u8, T>,
        coroutine::IntoIter<T, u8>, coroutine::Iter<'static, T, u8>;
    yes no yes no no:
        coroutine::Unstarted<T, u8, u8>, coroutine::Unstarted<u8, T, u8>,
        coroutine::Unstarted<u8, u8, T>;
    no no Unpin no no: coroutine::IntoIter<u8, T>, coroutine::Iter<'static, u8, T>;
    Send Send yes yes yes:
        Task<T>, ScopedTask<'static, T>, TryTask<'static, T>, Promise<T>, TaskGroup<T>,
        TaskGroup<u8, T>, sync::Sender<T>,
        sync::Receiver<T>, sync::OneshotSender<T>, sync::OneshotReceiver<T>;
    no no yes yes yes: LocalTask<T>;
    no yes yes no yes: Scope<'static, 'static>;
    no Send Unpin no yes: TryScope<'static, 'static, T>;
    Send Sync Unpin UnwindSafe RefUnwindSafe:
        Late<T>, Pipeline<T, u8>, Pipeline<u8, T>, ActorBody<T>, ActorEnded<T>, SpawnError<T>,
        Resumed<T, u8>, Resumed<u8, T>, ResumeError<T>, par::Zip<T, u8>, par::Zip<u8, T>,
        par::Enumerate<T>, par::Numbered<T>,
        par::AtLeast<T>, sync::SendError<T>, sync::TrySendError<T>, shutdown::Guarded<T>,
        shutdown::Interrupt<T>;
    yes yes no no no:
        Sleep, IntervalTick<'static>, sync::SemaphoreAcquire<'static>, sync::EventWait<'static>,
        sync::BarrierWait<'static>;
    Send Sync no no no: Timeout<T>;
    Send Sync Unpin no no: TaskError<T>;
    no no Unpin no no: Yielder<T, u8, u8>, Yielder<u8, T, u8>;
    Send Send yes UnwindSafe RefUnwindSafe: par::Items<T>;
    Sync Sync yes RefUnwindSafe RefUnwindSafe: par::Chunks<'static, T>;
    Send Sync yes no RefUnwindSafe: par::ChunksMut<'static, T>;
    Send Send Unpin UnwindSafe no: sync::Mutex<T>;
    no Sync yes no no:
        sync::MutexGuard<'static, T>, sync::RwLockReadGuard<'static, T>,
        sync::RwLockWriteGuard<'static, T>;
    Send Send no no no:
        sync::MutexLock<'static, T>, sync::RecvFuture<'static, T>, sync::OneshotRecv<'static, T>,
        sync::OneshotClosed<'static, T>;
    Send Sync yes no no: sync::AsyncMutexGuard<'static, T>;
    Send both Unpin UnwindSafe no: sync::RwLock<T>, sync::OnceCell<T>, sync::Lazy<T>;
    both both no no no:
        sync::RwLockRead<'static, T>, sync::RwLockWrite<'static, T>,
        sync::BroadcastRecv<'static, T>, sync::WatchChanged<'static, T>;
    both Sync yes no no:
        sync::AsyncRwLockReadGuard<'static, T>, sync::AsyncRwLockWriteGuard<'static, T>;
    Send both no no no: sync::SendFuture<'static, T>;
    both both yes yes yes: sync::BroadcastSender<T>, sync::WatchSender<T>, sync::WatchReceiver<T>;
    both both yes RefUnwindSafe RefUnwindSafe: SharedTask<T>, sync::BroadcastReceiver<T>;
    yes yes yes no yes: sequence::SingleClaim<'static, u8>;
    Send Send yes no no:
        ring::RingBuilder<T, ring::producers::One>, ring::Producer<T>, ring::MultiProducer<T>,
        ring::Stage<T>, ring::Reader<T>, ring::WriteBatch<'static, T>;
    both both yes no no: ring::Batch<'static, T>;
    Send both yes no no: ring::BatchMut<'static, T>;
}

/// Compiles if an error can be boxed for another thread, as `?` does in a function that returns any
/// error.
fn boxes<E: Error + Send + Sync + 'static>() {}

const _: &[fn()] = &[
    boxes::<ActorEnded<u8>>,
    boxes::<BuildError>,
    boxes::<CallError>,
    boxes::<Cancelled>,
    boxes::<CreateError>,
    boxes::<JoinError>,
    boxes::<Late<u8>>,
    boxes::<NoStack>,
    boxes::<ResumeError<u8>>,
    boxes::<RuntimeEnded>,
    boxes::<SpawnError<fn()>>,
    boxes::<TaskError<std::fmt::Error>>,
    boxes::<TimeoutError>,
    #[cfg(feature = "sim")]
    boxes::<sim::Failed>,
    boxes::<sync::SendError<u8>>,
    #[cfg(feature = "futures")]
    boxes::<sync::streams::SinkError<u8>>,
    boxes::<sync::TryRecvError>,
    boxes::<sync::TrySendError<u8>>,
    boxes::<sync::WaitError>,
];

/// Asserts that each of some types implements all of the first traits and none of the others.
macro_rules! implement {
    (@ $type:ty: [$($all:path),+] [$($none:path),*]) => {
        assert_impl_all!($type: $($all),+);
        $(assert_not_impl_any!($type: $none);)*
    };
    ($($all:tt no $none:tt: $($type:ty),+;)*) => {
        $($(implement!(@ $type: $all $none);)+)*
    };
}

// `Cell<u8>` is not `Sync`.
implement! {
    [Debug] no [Clone]:
        Runtime, Task<Cell<u8>>, Scope<'static, 'static>, TryScope<'static, 'static, Cell<u8>>,
        PanicPayload, Sleep, Interval,
        Pipeline<Cell<u8>, Cell<u8>>, par::ChunksMut<'static, u8>, sync::OneshotSender<Cell<u8>>,
        sync::OneshotReceiver<Cell<u8>>;
    [Debug] no [Clone, Future]:
        LocalTask<Cell<u8>>, ScopedTask<'static, Cell<u8>>, TryTask<'static, Cell<u8>>;
    [Debug] no []: TaskLocal<u8>, PanicReport<'static>, Coroutine<(), (), ()>;
    [Debug, Default] no []: Builder, TaskBuilder;
    [Debug, Default, From<u8>] no []: sync::Mutex<u8>, sync::RwLock<u8>;
    [Debug, Display] no [Clone]: sync::MutexGuard<'static, u8>;
    [Debug, ExactSizeIterator] no [Clone]: par::Items<Cell<u8>>;
    [Debug, Future] no []:
        Task<Cell<u8>>, Sleep, Timeout<std::future::Ready<Cell<u8>>>, IntervalTick<'static>;
    [Clone, Debug] no []:
        Handle, Unparker, par::Chunks<'static, u8>, par::Zip<u8, u8>, par::AtLeast<u8>,
        sync::Sender<Cell<u8>>, sync::Receiver<Cell<u8>>, sync::BroadcastSender<Cell<u8>>,
        sync::BroadcastReceiver<Cell<u8>>, sync::WatchSender<Cell<u8>>,
        sync::WatchReceiver<Cell<u8>>;
    [Clone] no []: coroutine::Builder, Current;
    [Clone, Eq, Debug, Default] no []: Metrics, WorkerMetrics, BlockingMetrics;
    [Copy] no []: Resumed<(), ()>, coroutine::State;
    [Copy, Eq, Debug] no []: YieldTo;
    [Copy, Eq, Debug, Default] no []: MissedTicks, Wait;
    [Copy, Ord, Hash, Debug, Display] no []: TaskId;
    [Error, Copy] no []: CreateError, ResumeError<()>;
    [Error] no []:
        JoinError, BuildError, SpawnError<Cell<u8>>, sync::SendError<Cell<u8>>,
        sync::TrySendError<Cell<u8>>;
    [Error, Clone, Eq] no []: Cancelled;
    [Error, Clone, Eq, From<Cancelled>] no []: sync::WaitError;
    [Error, Copy, Eq] no []:
        NoStack, RuntimeEnded, sync::TryRecvError;
    [Error, Copy, Eq, From<RuntimeEnded>] no []: TimeoutError;
}

/// The future of a wait for a number has no name of its own.
#[test]
fn a_wait_for_a_number_may_move_between_threads() {
    fn moves<T: Send + Sync>(_: T) {}
    let barrier = sequence::SequenceBarrier::<u8>::new();
    moves(barrier.wait_async(0));
    moves(sequence::SequenceBarrierGroup::from(&barrier).wait_async(0));
    moves(sequence::MultiProducerSequencer::new(&barrier, 2).wait_async(0));
}

/// These functions compile, or do not. None is run.
#[test]
fn lifetime_bounds_are_as_wide_as_they_may_be() {
    #[allow(dead_code)]
    fn block_on_borrows(rt: &Runtime, numbers: &mut [u8]) -> usize {
        rt.block_on(|| {
            numbers[0] = 1;
            numbers.len()
        })
    }

    #[allow(dead_code)]
    fn a_scoped_task_borrows_and_returns_borrows(text: &str) -> &str {
        scope(|s| s.spawn(|| &text[1..]).join().unwrap())
    }

    #[allow(dead_code)]
    fn a_scoped_coroutine_borrows_and_returns_borrows(text: &str) -> &str {
        Coroutine::<(), (), &str>::scoped(
            |_, ()| &text[1..],
            |coroutine| coroutine.resume(()).unwrap().returned().unwrap(),
        )
    }

    /// A value that borrows nothing may be kept for ever.
    fn borrows_nothing<T: 'static>() {}
    borrows_nothing::<(Runtime, Builder, Handle, TaskBuilder, TaskId, Unparker, YieldTo)>();
    borrows_nothing::<(BuildError, JoinError, NoStack, Cancelled, Metrics, WorkerMetrics)>();
    borrows_nothing::<BlockingMetrics>();
    borrows_nothing::<(coroutine::Builder, CreateError, Current, coroutine::State)>();
}
