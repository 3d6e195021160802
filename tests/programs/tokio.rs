//! Programs of tokio's users.

use super::{Outcome, fetch, run};
use cygnet::sync::{Semaphore, bounded, oneshot, watch};
use cygnet::{
    CancelHandle, TaskError, TaskGroup, all_fail_fast, select, sleep, spawn, spawn_blocking,
    try_timeout,
};
use std::collections::HashMap;
use std::time::Duration;

/// Spawn a task, and wait for its result.
#[test]
fn a_task_returns_a_value() -> Outcome {
    let sum = run(|| Ok(spawn(|| (1..=10).sum::<u32>()).value()?))?;
    assert_eq!(sum, 55);
    Ok(())
}

/// A set of tasks that may fail: the first failure aborts the rest.
#[test]
fn a_set_of_tasks_is_joined() -> Outcome {
    let pages = run(|| Ok(all_fail_fast(["http://a", "http://b"].map(|at| move || fetch(at)))));
    assert_eq!(pages?.map_err(|error| error.to_string())?, ["the page of a", "the page of b"]);
    Ok(())
}

/// A set of tasks whose values are taken as they come. One that takes too long is aborted.
#[test]
fn values_come_in_the_order_of_their_ends() -> Outcome {
    let pages = run(|| {
        let mut set = TaskGroup::fallible();
        let slow = set.spawn_try(|| {
            sleep(Duration::from_secs(3600))?;
            fetch("http://slow")
        });
        for address in ["http://a", "http://b"] {
            set.spawn_try(move || fetch(address));
        }
        let mut pages = Vec::new();
        while let Some(page) = set.next().map_err(TaskError::into_error)? {
            pages.push(page);
            if pages.len() == 2 {
                slow.cancel("two are enough");
            }
        }
        pages.sort();
        Ok(pages)
    })?;
    assert_eq!(pages, ["the page of a", "the page of b"]);
    Ok(())
}

/// A future that is shared.
#[test]
fn two_await_one_result() -> Outcome {
    let lengths = run(|| {
        let numbers = spawn(|| (1..=10).collect::<Vec<u32>>()).shared();
        let same = numbers.clone();
        let sum = spawn(move || numbers.value().map(|numbers| numbers.iter().sum::<u32>()));
        let last = spawn(move || same.value().map(|numbers| numbers.last().copied()));
        Ok((sum.value()??, last.value()??))
    })?;
    assert_eq!(lengths, (55, Some(10)));
    Ok(())
}

/// Several senders, one receiver; the loop ends when the last sender is gone.
#[test]
fn senders_share_a_channel() -> Outcome {
    let mut lines = run(|| {
        let (to, from) = bounded(8);
        for n in 0..3 {
            let to = to.clone();
            spawn(move || to.send(format!("hello from {n}"))).detach();
        }
        drop(to);
        Ok(from.iter().collect::<Vec<_>>())
    })?;
    lines.sort();
    assert_eq!(lines, ["hello from 0", "hello from 1", "hello from 2"]);
    Ok(())
}

/// A task owns the state; requests bring the way back with them.
#[test]
fn a_task_owns_the_state() -> Outcome {
    enum Command {
        Set(&'static str, u32),
        Get(&'static str, cygnet::sync::OneshotSender<Option<u32>>),
    }

    let found = run(|| {
        let (to, commands) = bounded(32);
        spawn(move || {
            let mut store = HashMap::new();
            for command in commands.iter() {
                match command {
                    Command::Set(key, value) => drop(store.insert(key, value)),
                    Command::Get(key, reply) => drop(reply.send(store.get(key).copied())),
                }
            }
        })
        .detach();
        to.send(Command::Set("foo", 7))?;
        let (reply, mut answer) = oneshot();
        to.send(Command::Get("foo", reply))?;
        Ok(answer.recv()?)
    })?;
    assert_eq!(found, Some(7));
    Ok(())
}

/// Whichever comes first, a value or the end of the patience.
#[test]
fn the_first_of_two_events_counts() -> Outcome {
    let said = run(|| {
        let (to, from) = bounded::<&str>(1);
        spawn(move || to.send("a value")).detach();
        let patience = cygnet::sleep_async(Duration::from_secs(60));
        Ok(select! {
            value = from.recv_async() => value?.to_owned(),
            _ = patience => "too late".to_owned(),
        }?)
    })?;
    assert_eq!(said, "a value");
    Ok(())
}

/// An operation with a time limit.
#[test]
fn an_operation_has_a_time_limit() -> Outcome {
    let error = run(|| {
        let (_to, from) = bounded::<u8>(1);
        try_timeout(Duration::from_millis(2), || Ok(from.recv()?))
    });
    assert!(error.is_err_and(|error| error.to_string().contains("its time is up")));
    Ok(())
}

/// At most three requests at a time.
#[test]
fn a_semaphore_limits_how_many_run() -> Outcome {
    let pages = run(|| {
        let permits = Semaphore::new(3);
        let addresses: Vec<_> = (0..10).map(|n| format!("http://{n}")).collect();
        let fetches = addresses.iter().map(|address| {
            || {
                let _permit = permits.acquire()?;
                fetch(address)
            }
        });
        all_fail_fast(fetches).map_err(|error| error.to_string().into())
    })?;
    assert_eq!(pages.len(), 10);
    Ok(())
}

/// A blocking call beside other tasks.
#[test]
fn a_blocking_call_keeps_nobody_waiting() -> Outcome {
    let here = run(|| Ok(spawn_blocking(|| std::fs::metadata(".")).value()??.is_dir()))?;
    assert!(here);
    Ok(())
}

/// A configuration that changes, and readers that follow it.
#[test]
fn readers_follow_a_configuration() -> Outcome {
    let last = run(|| {
        let (config, mut seen) = watch(1);
        let reader = spawn(move || seen.wait_for(|n| *n >= 3));
        (2..=3).for_each(|n| config.send(n));
        Ok(*reader.value()??)
    })?;
    assert_eq!(last, 3);
    Ok(())
}

/// A token stops a worker and whatever it has started.
#[test]
fn a_token_stops_a_worker() -> Outcome {
    let rounds = run(|| {
        let (token, mut tokens) = oneshot::<CancelHandle>();
        let worker = spawn(move || {
            drop(token.send(cygnet::cancel_handle()));
            let mut rounds = 0;
            while cygnet::checkpoint().is_ok() {
                rounds += 1;
            }
            rounds
        });
        tokens.recv()?.cancel("the server stops");
        Ok(worker.value()?)
    })?;
    assert!(rounds < u64::MAX);
    Ok(())
}
