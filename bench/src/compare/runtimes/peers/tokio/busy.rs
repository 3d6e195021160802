//! Computing tasks on tokio: the kernels of `busy` as futures.

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::build;
use crate::compare::kernels::busy::{job, portion, sized, stages};
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
