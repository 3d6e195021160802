//! Computing tasks on tokio: the kernels of `busy` as futures.

use std::sync::Arc;
use tokio::sync::{Barrier, Mutex, RwLock, mpsc};
use tokio::task::JoinHandle;

use super::build;
use crate::compare::kernels::busy::{job, portion, sized, stages, writes};
use crate::compare::prelude::*;
use crate::compare::runtimes::peers::futures::Executor;

async fn end<T>(task: JoinHandle<T>) -> T {
    task.await.expect("no task panics")
}

/// Joins the tasks, and returns their results.
pub async fn end_all<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut results = Vec::with_capacity(tasks.len());
    for task in tasks {
        results.push(end(task).await);
    }
    results
}

pub fn pipeline(setting: &Setting) -> CaseResult {
    let (runtime, (values, stages)) = (build(setting)?, stages(setting));
    Ok(busy(setting, values, || runtime.run(pass(values as u64, stages))))
}

async fn pass(values: u64, stages: [Work; STAGES]) -> u64 {
    let (to, mut from) = mpsc::channel(BUSY_ROOM);
    tokio::spawn(async move {
        for value in 0..values {
            to.send(value).await.expect("the channel is open");
        }
    });
    for work in stages {
        let (to, next) = mpsc::channel(BUSY_ROOM);
        let mut from = std::mem::replace(&mut from, next);
        tokio::spawn(async move {
            while let Some(value) = from.recv().await {
                work.run(value);
                to.send(value + 1).await.expect("the channel is open");
            }
        });
    }
    let sink = tokio::spawn(async move {
        let mut sum = 0;
        while let Some(value) = from.recv().await {
            sum += value;
        }
        sum
    });
    end(sink).await
}

/// Spawns the tasks, joins them by their handles and counts them.
async fn all(tasks: usize, work: Work) -> u64 {
    let spawn = |seed| tokio::spawn(async move { job(work, seed) });
    let tasks: Vec<_> = (0..tasks as u64).map(spawn).collect();
    let mut done = 0;
    for task in tasks {
        done += end(task).await;
    }
    done
}

pub fn phases(setting: &Setting) -> CaseResult {
    let (runtime, (rounds, work)) =
        (build(setting)?, sized(setting, cases::rounds(setting.number), setting.number));
    let phases = move || async move {
        let mut done = 0;
        for _ in 0..rounds {
            done += all(JOBS, work).await;
        }
        done
    };
    Ok(busy(setting, rounds, || runtime.run(phases())))
}

pub fn flood(setting: &Setting) -> CaseResult {
    let (runtime, (tasks, work)) = (build(setting)?, sized(setting, cases::FLOOD, setting.number));
    Ok(busy(setting, tasks, || runtime.run(all(tasks, work))))
}

pub fn contended(setting: &Setting) -> CaseResult {
    let (runtime, (turns, outside)) =
        (build(setting)?, sized(setting, cases::turns(setting.number), setting.number));
    let count = setting.workers * TASKS_PER_WORKER;
    Ok(busy_with_waits(setting, turns, || runtime.run(lock_often(count, turns, outside))))
}

async fn lock_often(count: usize, turns: usize, outside: Work) -> (u64, Vec<Share>) {
    let (shared, each) = (Arc::new((Mutex::new(0), Barrier::new(count))), (turns / count) as u64);
    let contend = |_| {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            shared.1.wait().await;
            let mut share = Share::begin(each);
            for turn in 0..each {
                let before = sampled(turn);
                let locked = {
                    let mut number = shared.0.lock().await;
                    *number += 1;
                    before.map(|_| Instant::now())
                };
                outside.run(turn);
                share.waits.extend(before.zip(locked));
            }
            share.end()
        })
    };
    let shares = end_all((0..count).map(contend).collect()).await;
    (*shared.0.lock().await, shares)
}

pub fn readers(setting: &Setting) -> CaseResult {
    let (runtime, (turns, work)) =
        (build(setting)?, sized(setting, cases::READ_TURNS, cases::READ_WORK));
    let count = setting.workers * TASKS_PER_WORKER;
    Ok(busy_with_waits(setting, turns, || runtime.run(read_often(count, turns, work))))
}

async fn read_often(count: usize, turns: usize, work: Work) -> (u64, Vec<Share>) {
    let (shared, each) = (Arc::new((RwLock::new(0), Barrier::new(count))), (turns / count) as u64);
    let contend = |task| {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            shared.1.wait().await;
            let mut share = Share::begin(each);
            for turn in 0..each {
                let before = sampled(turn);
                let locked = if writes(task, turn) {
                    let mut number = shared.0.write().await;
                    let locked = before.map(|_| Instant::now());
                    *number += job(work, turn);
                    locked
                } else {
                    let number = shared.0.read().await;
                    let locked = before.map(|_| Instant::now());
                    work.run(*number);
                    locked
                };
                work.run(turn);
                share.waits.extend(before.zip(locked));
            }
            share.end()
        })
    };
    let shares = end_all((0..count).map(contend).collect()).await;
    (*shared.0.read().await, shares)
}

pub fn many_senders(setting: &Setting) -> CaseResult {
    let (runtime, (values, work)) =
        (build(setting)?, sized(setting, cases::SENT, cases::SENT_WORK));
    let senders = setting.workers * TASKS_PER_WORKER;
    Ok(busy(setting, values, || runtime.run(send_and_compute(senders, values, work))))
}

async fn send_and_compute(senders: usize, values: usize, work: Work) -> u64 {
    let (to, mut from) = mpsc::channel(BUSY_ROOM);
    for sender in 0..senders {
        let to = to.clone();
        tokio::spawn(async move {
            for value in portion(values, senders, sender) {
                to.send(value).await.expect("the channel is open");
            }
        });
    }
    drop(to);
    let receiver = tokio::spawn(async move {
        let mut sum = 0;
        while let Some(value) = from.recv().await {
            work.run(value);
            sum += value;
        }
        sum
    });
    end(receiver).await
}

pub fn request_reply(setting: &Setting) -> CaseResult {
    let (runtime, (requests, work)) =
        (build(setting)?, sized(setting, cases::REQUESTS, cases::ANSWER_WORK));
    let pairs = setting.workers * PAIRS_PER_WORKER;
    Ok(busy_with_waits(setting, requests, || runtime.run(ask_and_answer(pairs, requests, work))))
}

async fn ask_and_answer(pairs: usize, requests: usize, work: Work) -> (u64, Vec<Share>) {
    let mut tasks = Vec::with_capacity(2 * pairs);
    for pair in 0..pairs {
        let own = portion(requests, pairs, pair);
        let (ask, mut asked) = mpsc::channel(1);
        let (answer, mut answered) = mpsc::channel(1);
        tasks.push(tokio::spawn(async move {
            let (mut sum, mut share) = (0, Share::begin(own.end - own.start));
            for request in own {
                let before = sampled(request);
                ask.send(request).await.expect("the channel is open");
                sum += answered.recv().await.expect("each request has an answer");
                share.waits.extend(before.map(|before| (before, Instant::now())));
            }
            (sum, share.end())
        }));
        tasks.push(tokio::spawn(async move {
            let share = Share::begin(0);
            while let Some(request) = asked.recv().await {
                work.run(request);
                answer.send(request + 1).await.expect("the channel is open");
            }
            (0, share.end())
        }));
    }
    let (sums, shares): (Vec<u64>, _) = end_all(tasks).await.into_iter().unzip();
    (sums.iter().sum(), shares)
}
