//! Tasks that wait for each other on tokio: the kernels of `waits`, and those of `busy` with locks
//! and answers, as futures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Barrier, Mutex, RwLock, Semaphore, mpsc, oneshot};

use super::build;
use super::busy::end_all;
use crate::compare::kernels::busy::{if_any, job, portion, sized, writes};
use crate::compare::kernels::waits::tasks_and_turns;
use crate::compare::prelude::*;
use crate::compare::runtimes::peers::futures::Executor;

/// What tasks use in turn.
trait Turns: Send + Sync + 'static {
    /// Takes a turn. Returns the time of the end of the wait if the turn is sampled.
    fn turn(
        &self,
        task: usize,
        at: u64,
        is_sample: bool,
    ) -> impl Future<Output = Option<Instant>> + Send;

    /// The result of all turns.
    fn result(self) -> u64;
}

/// Measures `count` tasks that start together and share out `turns` turns.
fn measured<T: Turns>(
    setting: &Setting,
    count: usize,
    turns: usize,
    new: impl Fn() -> T,
) -> CaseResult {
    let runtime = build(setting)?;
    Ok(busy_with_waits(setting, turns, || runtime.run(take_turns(new(), count, turns))))
}

async fn take_turns<T: Turns>(shared: T, count: usize, turns: usize) -> (u64, Vec<Share>) {
    let (shared, each) = (Arc::new((shared, Barrier::new(count))), (turns / count) as u64);
    let contend = |task| {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            shared.1.wait().await;
            let mut share = Share::begin(each);
            for at in 0..each {
                let before = sampled(at);
                let ended = shared.0.turn(task, at, before.is_some()).await;
                share.waits.extend(before.zip(ended));
            }
            share.end()
        })
    };
    let shares = end_all((0..count).map(contend).collect()).await;
    let shared = Arc::into_inner(shared).expect("all tasks have ended");
    (shared.0.result(), shares)
}

/// A mutex, and the computation inside and outside.
struct Locked {
    number: Mutex<u64>,
    inside: Work,
    outside: Work,
}

impl Turns for Locked {
    async fn turn(&self, _: usize, at: u64, is_sample: bool) -> Option<Instant> {
        let locked = {
            let mut number = self.number.lock().await;
            let locked = is_sample.then(Instant::now);
            *number += 1;
            if_any(self.inside, at);
            locked
        };
        self.outside.run(at);
        locked
    }

    fn result(self) -> u64 {
        self.number.into_inner()
    }
}

pub fn contended(setting: &Setting) -> CaseResult {
    let (turns, outside) = sized(setting, cases::turns(setting.number), setting.number);
    let count = setting.workers * TASKS_PER_WORKER;
    let new = || Locked { number: Mutex::new(0), inside: Work::NONE, outside };
    measured(setting, count, turns, new)
}

pub fn mutex(setting: &Setting) -> CaseResult {
    let (count, turns, work) = tasks_and_turns(setting);
    let new = || Locked { number: Mutex::new(0), inside: work, outside: work };
    measured(setting, count, turns, new)
}

/// A reader-writer lock, and the computation inside and outside.
struct Read(RwLock<u64>, Work);

impl Turns for Read {
    async fn turn(&self, task: usize, at: u64, is_sample: bool) -> Option<Instant> {
        let locked = if writes(task, at) {
            let mut number = self.0.write().await;
            let locked = is_sample.then(Instant::now);
            *number += job(self.1, at);
            locked
        } else {
            let number = self.0.read().await;
            let locked = is_sample.then(Instant::now);
            self.1.run(*number);
            locked
        };
        self.1.run(at);
        locked
    }

    fn result(self) -> u64 {
        self.0.into_inner()
    }
}

pub fn readers(setting: &Setting) -> CaseResult {
    let (turns, work) = sized(setting, cases::READ_TURNS, cases::READ_WORK);
    let count = setting.workers * TASKS_PER_WORKER;
    measured(setting, count, turns, || Read(RwLock::new(0), work))
}

pub fn rwlock(setting: &Setting) -> CaseResult {
    let (count, turns, work) = tasks_and_turns(setting);
    measured(setting, count, turns, || Read(RwLock::new(0), work))
}

/// A number for the holder of the one permit, and the computation with and without a permit.
struct Permitted(Semaphore, Number, Work);

impl Turns for Permitted {
    async fn turn(&self, _: usize, at: u64, is_sample: bool) -> Option<Instant> {
        let locked = {
            let _permit = self.0.acquire().await.expect("it is never closed");
            let locked = is_sample.then(Instant::now);
            self.1.change(|number| *number += job(self.2, at));
            locked
        };
        self.2.run(at);
        locked
    }

    fn result(self) -> u64 {
        self.1.change(|number| *number)
    }
}

pub fn semaphore(setting: &Setting) -> CaseResult {
    let (count, turns, work) = tasks_and_turns(setting);
    measured(setting, count, turns, || Permitted(Semaphore::new(1), Number::default(), work))
}

/// A barrier, and the number of times that it has been opened.
struct Passed(Barrier, AtomicU64);

impl Turns for Passed {
    async fn turn(&self, _: usize, _: u64, is_sample: bool) -> Option<Instant> {
        if self.0.wait().await.is_leader() {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
        is_sample.then(Instant::now)
    }

    fn result(self) -> u64 {
        self.1.into_inner()
    }
}

pub fn barrier(setting: &Setting) -> CaseResult {
    let (count, turns, _) = tasks_and_turns(setting);
    measured(setting, count, turns, || Passed(Barrier::new(count), AtomicU64::new(0)))
}

/// The side of a pair that asks.
trait Asks: Send + 'static {
    /// Sends a request and returns the answer.
    fn ask(&mut self, request: u64) -> impl Future<Output = u64> + Send;
}

/// The side of a pair that answers.
trait Answers: Send + 'static {
    /// Receives a request, works, and answers with the request plus one.
    fn answer(&mut self, work: Work) -> impl Future<Output = ()> + Send;
}

/// Measures `pairs` pairs of tasks that share out `requests` requests.
fn exchanges<A: Asks, R: Answers>(
    setting: &Setting,
    pairs: usize,
    requests: usize,
    work: Work,
    sides: fn() -> (A, R),
) -> CaseResult {
    let runtime = build(setting)?;
    let all = || runtime.run(ask_and_answer(pairs, requests, work, sides));
    Ok(busy_with_waits(setting, requests, all))
}

async fn ask_and_answer<A: Asks, R: Answers>(
    pairs: usize,
    requests: usize,
    work: Work,
    sides: fn() -> (A, R),
) -> (u64, Vec<Share>) {
    let mut tasks = Vec::with_capacity(2 * pairs);
    for pair in 0..pairs {
        let own = portion(requests, pairs, pair);
        let (mut asking, mut answering) = sides();
        let count = own.end - own.start;
        tasks.push(tokio::spawn(async move {
            let (mut sum, mut share) = (0, Share::begin(count));
            for request in own {
                let before = sampled(request);
                sum += asking.ask(request).await;
                share.waits.extend(before.map(|before| (before, Instant::now())));
            }
            (sum, share.end())
        }));
        tasks.push(tokio::spawn(async move {
            let share = Share::begin(0);
            for _ in 0..count {
                answering.answer(work).await;
            }
            (0, share.end())
        }));
    }
    let (sums, shares): (Vec<u64>, _) = end_all(tasks).await.into_iter().unzip();
    (sums.iter().sum(), shares)
}

pub fn request_reply(setting: &Setting) -> CaseResult {
    let (requests, work) = sized(setting, cases::REQUESTS, cases::ANSWER_WORK);
    exchanges(setting, setting.workers * PAIRS_PER_WORKER, requests, work, bounded)
}

pub fn round_trips_bounded(setting: &Setting) -> CaseResult {
    exchanges(setting, 1, setting.size(cases::ROUND_TRIPS), Work::NONE, bounded)
}

pub fn round_trips_unbounded(setting: &Setting) -> CaseResult {
    exchanges(setting, 1, setting.size(cases::ROUND_TRIPS), Work::NONE, unbounded)
}

pub fn round_trips_oneshot(setting: &Setting) -> CaseResult {
    exchanges(setting, 1, setting.size(cases::ROUND_TRIPS), Work::NONE, || mpsc::channel(1))
}

/// One side's ends of two channels with room for one value each.
type Bounded = (mpsc::Sender<u64>, mpsc::Receiver<u64>);

fn bounded() -> (Bounded, Bounded) {
    let ((ask, asked), (answer, answered)) = (mpsc::channel(1), mpsc::channel(1));
    ((ask, answered), (answer, asked))
}

impl Asks for Bounded {
    async fn ask(&mut self, request: u64) -> u64 {
        self.0.send(request).await.expect("the channel is open");
        self.1.recv().await.expect("each request has an answer")
    }
}

impl Answers for Bounded {
    async fn answer(&mut self, work: Work) {
        let request = self.1.recv().await.expect("each answer has a request");
        work.run(request);
        self.0.send(request + 1).await.expect("the channel is open");
    }
}

/// One side's ends of two channels without a limit.
type Unbounded = (mpsc::UnboundedSender<u64>, mpsc::UnboundedReceiver<u64>);

fn unbounded() -> (Unbounded, Unbounded) {
    let ((ask, asked), (answer, answered)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    ((ask, answered), (answer, asked))
}

impl Asks for Unbounded {
    async fn ask(&mut self, request: u64) -> u64 {
        self.0.send(request).expect("the channel is open");
        self.1.recv().await.expect("each request has an answer")
    }
}

impl Answers for Unbounded {
    async fn answer(&mut self, work: Work) {
        let request = self.1.recv().await.expect("each answer has a request");
        work.run(request);
        self.0.send(request + 1).expect("the channel is open");
    }
}

/// A request with the sender for its answer.
type Request = (u64, oneshot::Sender<u64>);

impl Asks for mpsc::Sender<Request> {
    async fn ask(&mut self, request: u64) -> u64 {
        let (answer, answered) = oneshot::channel();
        assert!(self.send((request, answer)).await.is_ok(), "the channel is open");
        answered.await.expect("each request has an answer")
    }
}

impl Answers for mpsc::Receiver<Request> {
    async fn answer(&mut self, work: Work) {
        let (request, answer) = self.recv().await.expect("each answer has a request");
        work.run(request);
        answer.send(request + 1).expect("the asking task waits");
    }
}
