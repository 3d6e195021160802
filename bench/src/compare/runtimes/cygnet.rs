//! cygnet itself. The calls are those of `bench`, and the forks are [`cygnet::join`].

use std::sync::Mutex;

use cygnet::shutdown::Swansong;
use cygnet::{Unparker, par, sync};

use super::rings::{self, Traffic};
use crate::compare::prelude::*;
use crate::figures::ops::{Gate, inside, looped};
use crate::figures::stops::measured::{self as stops, CHILDREN, SIBLINGS};
use crate::figures::stops::{
    children, deep_guards, deep_guards_alone, guarded_children, guards, interrupted_polls,
    interrupted_steps,
};
use crate::figures::{self, balance, memory, ops, tree};

/// The cases that cygnet runs.
pub const TABLE: Table = with_forks!(Cygnet, forking;
    ("switch", |s| Ok(repeated(s, ops::coroutine_switches))),
    ("spawn-join", |s| looped(s, ops::spawn_join_in_place)),
    ("spawn-join-parked", |s| looped(s, spawn_join_parked)),
    ("batch", batch),
    ("batch-parked", batch_parked),
    ("start-here", |s| inside(s, |s| starts(s, ops::start_in_place))),
    ("start-elsewhere", |s| {
        let work = s.work(ELSEWHERE_WORK);
        inside(s, |s| starts(s, || ops::start_elsewhere(ELSEWHERE_GAP, work)))
    }),
    ("start-outside", |s| {
        let runtime = ops::runtime(s.workers);
        Ok(starts(s, || ops::start_from_outside(&runtime, OUTSIDE_GAP)))
    }),
    ("spawn-outside", ops::from_outside),
    ("block-on", block_on),
    ("yield-", |s| looped(s, |n| ops::yields(n, s.number as usize))),
    ("ping-pong", |s| looped(s, ops::ping_pong)),
    ("ping-pong-across", |s| looped(s, ops::ping_pong_across)),
    ("parked-memory", |s| memory::parked(s.size(cases::PARKED))),
    ("ask", |s| looped(s, tree::asks_of_a_handle)),
    ("scope", |s| looped(s, |n| tree::scopes(n, s.size(SIBLINGS)))),
    ("cancel-", |s| cancelled(s, ASKED, tree::cancelled_tree)),
    ("cancel-handles-", |s| cancelled(s, ASKED, tree::cancelled_tree_with_handles)),
    ("cancel-waiting-", |s| cancelled(s, ENDED, tree::cancelled_waiters)),
    ("wait-once", wait_once),
    ("sum", sum),
    ("items", items),
    ("mutex", |s| looped(s, figures::waits::locks)),
    ("mutex-64", |s| inside(s, |s| contended(s, lock_often))),
    ("mutex-64-spread", |s| inside(s, |s| spread(s, lock_often))),
    ("channel-", |s| inside(s, |s| passed(s, pass))),
    ("guard", |s| looped(s, guards::<Swansong>)),
    ("guard-outside", stops::guard::<Swansong>),
    ("guard-outside-late", stops::late_guard::<Swansong>),
    ("guard-two", stops::guards_of_two_workers::<Swansong>),
    ("guard-two-outside", stops::guards_of_two::<Swansong>),
    ("guard-two-child", stops::guards_of_a_child::<Swansong>),
    ("guard-deep", |s| looped(s, deep_guards::<Swansong>)),
    ("guard-deep-alone", |s| looped(s, deep_guards_alone::<Swansong>)),
    ("interrupt-future", |s| looped(s, interrupted_polls::<Swansong>)),
    #[cfg(feature = "futures")]
    ("interrupt-stream", |s| looped(s, crate::figures::stops::interrupted_stream_polls::<Swansong>)),
    ("interrupt-iterator", |s| looped(s, interrupted_steps::<Swansong>)),
    ("child", |s| looped(s, |n| children::<Swansong>(n, 0))),
    ("child-siblings", |s| looped(s, |n| children::<Swansong>(n, s.size(SIBLINGS)))),
    ("child-guard", |s| looped(s, guarded_children::<Swansong>)),
    ("shut-down-10k", |s| inside(s, |s| stops::stops::<Swansong>(s, s.size(CHILDREN)))),
    ("ring-batch-", |s| pass_messages(s, Traffic::BATCHES)),
    ("ring-", |s| pass_messages(s, Traffic::SINGLE)),
    ("ring-park-", |s| pass_messages(s, Traffic::PARKED)),
    ("pipeline-", busy::pipeline::<Cygnet>),
    ("uneven-stages", busy::pipeline::<Cygnet>),
    ("steps-", steps),
    ("phases-", |s| inside(s, busy::phases::<Cygnet>)),
    ("flood-", flood),
    ("scope-flood-", |s| inside(s, busy::scope_flood::<Cygnet>)),
    ("contended-", busy::contended::<Cygnet, sync::Mutex<u64>>),
    ("readers-95", busy::readers::<Cygnet, sync::RwLock<u64>>),
    ("many-senders", busy::many_senders::<Cygnet>),
    ("request-reply", busy::request_reply::<Cygnet>),
    ("round-trip-bounded", |s| waits::round_trips_over::<Cygnet>(s, 1)),
    ("round-trip-rendezvous", |s| waits::round_trips_over::<Cygnet>(s, 0)),
    ("round-trip-unbounded", |s| waits::round_trips_over::<Cygnet>(s, waits::UNBOUNDED)),
    ("round-trip-oneshot", |s| waits::round_trips::<Cygnet, _, _>(s, oneshots)),
    ("turns-mutex-", waits::mutex::<Cygnet, sync::Mutex<u64>>),
    ("turns-mutex-fifo-", waits::mutex::<Cygnet, Fifo>),
    ("turns-rwlock-", waits::rwlock::<Cygnet, sync::RwLock<u64>>),
    ("turns-semaphore-", waits::mutex::<Cygnet, Permitted>),
    ("turns-condvar-", waits::condvar::<Cygnet, Buffer>),
    ("turns-barrier-", waits::barrier::<Cygnet>),
    ("runtime", |s| {
        Ok(repeated(s, |n| time(n, |i| ops::runtime(s.workers).block_on(|| black_box(i)))))
    }),
    ("sleepers", |s| {
        let runtime = ops::runtime(s.workers);
        sleepers(s, |all| runtime.block_on(|| sleep_all(&all)))
    }),
    ("control-loop", |s| {
        let runtime = ops::runtime(s.workers);
        control_loop(s, |job: ControlJob| runtime.spawn(move || job.run()).detach())
    }),
);

/// Forks of tasks: [`cygnet::join`].
pub struct Cygnet;

fork!(Cygnet, |a, b| cygnet::join(a, b));

impl Blocking for Cygnet {
    fn inside(setting: &Setting, kernel: impl FnOnce(&Setting) -> Measured + Send) -> CaseResult {
        inside(setting, kernel)
    }

    fn run_all<T: Send>(tasks: Vec<Task<'_, T>>) -> Vec<T> {
        cygnet::scope(|scope| {
            let tasks: Vec<_> = tasks.into_iter().map(|task| scope.spawn(task)).collect();
            tasks.into_iter().map(|task| task.join().expect("no task panics")).collect()
        })
    }

    fn barrier(count: usize) -> impl Fn() -> bool + Sync {
        let barrier = sync::Barrier::new(count);
        move || barrier.wait().expect("it is never cancelled").is_leader()
    }
}

impl Channels for Cygnet {
    fn channel(
        room: usize,
    ) -> (impl Fn(u64) + Clone + Send + 'static, impl Fn() -> Option<u64> + Send + 'static) {
        let (to, from) = sync::bounded(room);
        (move |value| to.send(value).expect("the channel is open"), move || from.recv().ok())
    }
}

impl Lock for sync::Mutex<u64> {
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        f(&mut self.lock().expect("it is never cancelled"))
    }
}

impl ReadWrite for sync::RwLock<u64> {
    #[inline(always)]
    fn read<R>(&self, f: impl FnOnce(&u64) -> R) -> R {
        f(&self.read().expect("it is never cancelled"))
    }

    #[inline(always)]
    fn write<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        f(&mut self.write().expect("it is never cancelled"))
    }
}

/// Both sides of an exchange in which a request comes with the sender for its answer.
fn oneshots() -> (impl FnMut(u64) -> u64 + Send, impl FnMut(Work) + Send) {
    let (to, from) = sync::bounded(1);
    let ask = move |request| {
        let (answer, mut answered) = sync::oneshot();
        assert!(to.send((request, answer)).is_ok(), "the channel is open");
        answered.recv().expect("each request has an answer")
    };
    let answer = move |work: Work| {
        let (request, answer) = from.recv().expect("the channel is open");
        work.run(request);
        answer.send(request + 1).expect("the asking task waits");
    };
    (ask, answer)
}

/// A mutex that hands over in order.
struct Fifo(sync::Mutex<u64>);

impl Default for Fifo {
    fn default() -> Fifo {
        Fifo(sync::Mutex::fifo(0))
    }
}

impl Lock for Fifo {
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        self.0.with(f)
    }
}

/// A number for the holder of the one permit.
struct Permitted(sync::Semaphore, Number);

impl Default for Permitted {
    fn default() -> Permitted {
        Permitted(sync::Semaphore::new(1), Number::default())
    }
}

impl Lock for Permitted {
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        let _permit = self.0.acquire().expect("it is never cancelled");
        self.1.change(f)
    }
}

#[derive(Default)]
struct Buffer(sync::Mutex<u64>, [sync::Condvar; 2]);

impl Place for Buffer {
    fn when<R>(&self, rest: u64, f: impl FnOnce(&mut u64) -> R) -> R {
        let mut number = self.0.lock().expect("it is never cancelled");
        let waiting = self.1[rest as usize].wait_while(&mut number, |number| *number % 2 != rest);
        waiting.expect("it is never cancelled");
        let result = f(&mut number);
        drop(number);
        self.1[1 - rest as usize].notify_one();
        result
    }
}

impl Scopes for Cygnet {
    fn each(slots: &mut [Slot], job: impl Fn(&mut Slot) + Sync) {
        let job = &job;
        cygnet::scope(|scope| {
            for slot in slots {
                scope.spawn(move || job(slot));
            }
        });
    }
}

/// The library's pipeline, in which all stages take the values in order.
fn steps(setting: &Setting) -> CaseResult {
    let (values, stages) = busy::stages(setting);
    let pass = || {
        let mut sum = 0;
        let [first, second, third, fourth] = stages.map(|work| {
            move |value| {
                work.run(value);
                value + 1
            }
        });
        cygnet::pipeline(0..values as u64)
            .in_flight(BUSY_ROOM)
            .ordered(first)
            .ordered(second)
            .ordered(third)
            .ordered(|value| sum += fourth(value))
            .run()
            .expect("it is never cancelled");
        sum
    };
    inside(setting, |setting| busy(setting, values, pass))
}

/// A flood of children that are joined by their handles.
fn flood(setting: &Setting) -> CaseResult {
    let (count, work) = busy::sized(setting, cases::FLOOD, setting.number);
    let flood = || {
        let spawn = |seed| cygnet::spawn(move || busy::job(work, seed));
        let children: Vec<_> = (0..count as u64).map(spawn).collect();
        children.into_iter().map(|child| child.join().expect("no task panics")).sum()
    };
    inside(setting, |setting| busy(setting, count, flood))
}

/// Measures forks inside a task.
fn forking(
    setting: &Setting,
    kernel: impl FnOnce(&Setting, &mut ()) -> Measured + Send,
) -> CaseResult {
    inside(setting, |setting| kernel(setting, &mut ()))
}

fn pass_messages(setting: &Setting, traffic: Traffic) -> CaseResult {
    inside(setting, |setting| ring(setting, traffic, rings::pass))
}

/// The library's loop over numbers in memory.
fn sum(setting: &Setting) -> CaseResult {
    let numbers = numbers(setting.size(cases::NUMBERS));
    let add = |a: u64, b: u64| a + b;
    let sum = || par::fold_reduce(black_box(&numbers), || 0, |sum, n| sum + n, add);
    inside(setting, |setting| timed(setting, || sum().expect("it is never cancelled")))
}

/// The library's loop over computed items.
fn items(setting: &Setting) -> CaseResult {
    let (count, steps) = item_size(setting);
    let add = |a: u64, b: u64| a + b;
    let sum = || par::map_reduce(0..black_box(count), || 0, |at| item(at, steps), add);
    inside(setting, |setting| timed(setting, || sum().expect("it is never cancelled")))
}

/// One child at a time that parks once.
fn spawn_join_parked(n: u64) -> Duration {
    let (parent, child) = (&cygnet::unparker(), &Mutex::new(None));
    cygnet::scope(|scope| {
        time(n, |i| {
            let task = scope.spawn(move || {
                *child.lock().expect("no holder panics") = Some(cygnet::unparker());
                parent.unpark();
                let _ = cygnet::park();
                black_box(i)
            });
            let _ = cygnet::park();
            let started: Option<Unparker> = child.lock().expect("no holder panics").take();
            started.expect("the child has woken its parent").unpark();
            black_box(task.join().ok());
        })
    })
}

/// Contenders for one mutex, which start together.
fn lock_often(each: usize) -> Vec<Stint> {
    let (mutex, gate) = (sync::Mutex::new(0), sync::Event::new());
    let here = Gate::new(CONTENDERS);
    cygnet::scope(|s| {
        let contend = || {
            here.pass();
            gate.wait().expect("it is never cancelled");
            let began = Instant::now();
            for _ in 0..each {
                *mutex.lock().expect("it is never cancelled") += 1;
            }
            (began, Instant::now())
        };
        let tasks: Vec<_> = (0..CONTENDERS).map(|_| s.spawn(contend)).collect();
        here.wait();
        gate.set();
        tasks.into_iter().map(|task| task.join().expect("no task panics")).collect()
    })
}

fn pass(values: usize, senders: usize) {
    figures::waits::passed_values(values as u64, senders as u64);
}

fn cancelled(
    setting: &Setting,
    afterwards: &'static str,
    cancelled: impl FnMut(usize) -> (Duration, Duration) + Send,
) -> CaseResult {
    let count = setting.size(cases::cancelled(setting.number));
    inside(setting, |setting| tree::of_a_node(setting, count, afterwards, cancelled))
}

fn batch(setting: &Setting) -> CaseResult {
    let size = setting.size(cases::BATCH);
    inside(setting, |setting| shared_out(setting, size, |n| ops::batches(n, size)))
}

fn batch_parked(setting: &Setting) -> CaseResult {
    let size = setting.size(cases::PARKED_BATCH);
    inside(setting, |setting| {
        shared_out(setting, size, |n| {
            (0..n).map(|_| balance::woken_together(size as u32, Work::NONE)).sum()
        })
    })
}

fn wait_once(setting: &Setting) -> CaseResult {
    let (tasks, work) = (setting.size(cases::WAITERS), setting.work(cases::WAITER_WORK));
    looped(setting, |n| (0..n).map(|_| balance::woken_together(tasks as u32, work)).sum())
}

fn sleep_all(all: &Sleepers) {
    cygnet::scope(|scope| {
        for index in 0..all.count {
            scope.spawn(move || {
                cygnet::sleep(all.lie_down(index)).expect("it is never cancelled");
                all.rise();
            });
        }
    });
}

fn block_on(setting: &Setting) -> CaseResult {
    let runtime = ops::runtime(setting.workers);
    let nothing = |i| runtime.block_on(|| black_box(i));
    Ok(repeated(setting, |n| time(n, nothing)))
}
