//! Spans of the crate tracing: an event is put down to the span of its task, whatever else has run
//! on its thread meanwhile.

#[path = "common/mod.rs"]
mod common;

use common::prelude::*;
use std::fmt::Debug;
use std::sync::{Mutex, Once};
use tracing::{Event as Record, Id, Span, Subscriber, info, info_span};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context as Around, Layer, SubscriberExt};

/// Notes, for each event, the spans around it, the outermost first.
struct Notes;

/// The notes of all tests, each with its event.
static NOTES: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());
/// How often the spans were entered, less how often they were left. A waiting task has left its
/// own.
static ENTERED: Mutex<Vec<(Id, i64)>> = Mutex::new(Vec::new());

impl<S> Layer<S> for Notes
where
    S: Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    fn on_event(&self, event: &Record<'_>, around: Around<'_, S>) {
        let mut text = String::new();
        event.record(&mut |_: &tracing::field::Field, value: &dyn Debug| {
            text = format!("{value:?}");
        });
        let spans: Vec<_> = match around.event_scope(event) {
            Some(spans) => spans.from_root().map(|span| span.name().to_owned()).collect(),
            None => Vec::new(),
        };
        NOTES.lock().unwrap().push((text, spans.join(" ")));
    }

    fn on_enter(&self, span: &Id, _: Around<'_, S>) {
        count(span, 1);
    }

    fn on_exit(&self, span: &Id, _: Around<'_, S>) {
        count(span, -1);
        match FAULT.swap(NONE, Ordering::Relaxed) {
            PANIC => panic!("planted: a subscriber"),
            WAIT => yield_now().unwrap(),
            _ => {}
        }
    }
}

/// What the next end of a span does besides.
static FAULT: AtomicUsize = AtomicUsize::new(NONE);
const NONE: usize = 0;
const PANIC: usize = 1;
const WAIT: usize = 2;

fn count(span: &Id, by: i64) {
    let mut all = ENTERED.lock().unwrap();
    match all.iter_mut().find(|(id, _)| id == span) {
        Some((_, count)) => *count += by,
        None => all.push((span.clone(), by)),
    }
}

fn entered(span: &Span) -> i64 {
    let id = span.id().expect("a subscriber is there");
    let all = ENTERED.lock().unwrap();
    all.iter().find(|(entered, _)| *entered == id).map_or(0, |(_, count)| *count)
}

fn listen() {
    static ONCE: Once = Once::new();
    let layered = || Registry::default().with(Notes);
    ONCE.call_once(|| tracing::subscriber::set_global_default(layered()).unwrap());
}

/// The spans around each event with this text.
fn around(text: &str) -> Vec<String> {
    let notes = NOTES.lock().unwrap();
    notes.iter().filter(|(event, _)| event == text).map(|(_, spans)| spans.clone()).collect()
}

/// Takes an event with a text that one test alone uses.
macro_rules! event {
    ($text:expr) => {
        info!(text = $text)
    };
}

#[track_caller]
fn assert_around(text: &str, spans: &str) {
    let all = around(text);
    assert!(!all.is_empty(), "no event {text}");
    assert!(all.iter().all(|each| each == spans), "{text} is in {all:?} and not in {spans:?}");
}

#[test]
fn a_span_that_is_entered_over_a_wait_is_the_task_s_alone() {
    listen();
    with_each_and_many(|rt| {
        rt.block_on(|| {
            scope(|s| {
                for (name, in_span) in [("a", info_span!("a")), ("b", info_span!("b"))] {
                    for _ in 0..4 {
                        let in_span = in_span.clone();
                        s.spawn(move || {
                            event!("alone: before");
                            let entered = in_span.entered();
                            for turn in 0..20 {
                                let inner = info_span!("inner").entered();
                                match turn % 3 {
                                    0 => yield_now().unwrap(),
                                    1 => sleep(Duration::from_micros(10)).unwrap(),
                                    _ => spawn(yield_now).join().unwrap().unwrap(),
                                }
                                event!(format!("alone: {name} inner"));
                                drop(inner);
                                yield_now().unwrap();
                                event!(format!("alone: {name}"));
                            }
                            drop(entered);
                            yield_now().unwrap();
                            event!("alone: after");
                        });
                    }
                }
                for _ in 0..4 {
                    s.spawn(|| {
                        for _ in 0..20 {
                            yield_now().unwrap();
                            event!("alone: none");
                        }
                    });
                }
            });
        });
    });
    for name in ["a", "b"] {
        assert_around(&format!("\"alone: {name}\""), name);
        assert_around(&format!("\"alone: {name} inner\""), &format!("{name} inner"));
    }
    ["before", "after", "none"]
        .iter()
        .for_each(|at| assert_around(&format!("\"alone: {at}\""), ""));
}

#[test]
fn a_task_begins_in_the_span_where_it_was_spawned() {
    listen();
    with_each(|rt| {
        let outside = info_span!("outside");
        let begun = outside.in_scope(|| rt.spawn(|| event!("begins: from a thread")));
        begun.join().unwrap();
        rt.block_on(|| {
            let entered = info_span!("parent").entered();
            let say = |what: &'static str| {
                move || {
                    yield_now().unwrap();
                    event!(what);
                }
            };
            let (promise, promised) = promise::<()>();
            let tasks = [
                spawn(say("begins: child")),
                spawn_now(say("begins: now")),
                spawn_unscoped(say("begins: unscoped")),
                task().name("named").spawn(say("begins: named")),
                Handle::current().spawn_on(0, say("begins: sent")).unwrap(),
                spawn_blocking(|| event!("begins: blocking")),
            ];
            blocking(|| event!("begins: called"));
            join(|| event!("begins: first"), || event!("begins: second"));
            par::for_each(0..100, |_| event!("begins: loop")).unwrap();
            scope(|s| drop(s.spawn(say("begins: scoped"))));
            // It does not matter where the parent is when the child begins.
            drop(entered);
            promise.complete(()).unwrap();
            promised.join().unwrap();
            event!("begins: parent");
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
    });
    assert_around("\"begins: from a thread\"", "outside");
    for what in [
        "child", "now", "unscoped", "named", "sent", "blocking", "called", "first", "second",
        "loop", "scoped",
    ] {
        assert_around(&format!("\"begins: {what}\""), "parent");
    }
    assert_around("\"begins: parent\"", "");
}

/// A task that is called on the stack of its joiner is in its own span, and not in the joiner's.
#[test]
fn a_task_that_is_called_in_place_is_in_its_own_span() {
    listen();
    with(&[1, 2], |rt| {
        rt.block_on(|| {
            for _ in 0..scaled_in_debug(50) {
                let outside = spawn(|| event!("in place: outside"));
                let inside = info_span!("spawner").in_scope(|| {
                    spawn(|| {
                        event!("in place: inside");
                        let entered = info_span!("own").entered();
                        yield_now().unwrap();
                        event!("in place: own");
                        // Left to the end of the task, which leaves it.
                        std::mem::forget(entered);
                    })
                });
                info_span!("joiner").in_scope(|| {
                    outside.join().unwrap();
                    event!("in place: between");
                    inside.join().unwrap();
                    event!("in place: joiner");
                });
            }
        });
    });
    assert_around("\"in place: outside\"", "");
    assert_around("\"in place: inside\"", "spawner");
    assert_around("\"in place: own\"", "spawner own");
    assert_around("\"in place: between\"", "joiner");
    assert_around("\"in place: joiner\"", "joiner");
}

#[test]
fn a_span_is_not_entered_while_its_task_waits_and_ends_with_the_tasks() {
    listen();
    with(&[1, 2], |rt| {
        let span = info_span!("waits");
        let (waiting, unparker) = {
            let (tell, told) = channel();
            let inside = span.clone();
            let body = move || {
                let _entered = inside.entered();
                tell.send(unparker()).unwrap();
                park().unwrap();
            };
            (parked(rt, 1, body), told.recv().unwrap())
        };
        assert_eq!(entered(&span), 0);
        unparker.unpark();
        waiting.join().unwrap();
        assert_eq!(entered(&span), 0);
        // Tasks that never start, or panic, keep no span.
        span.in_scope(|| {
            rt.block_on(|| {
                let never = spawn(|| ());
                never.cancel("not needed");
                let end = never.join();
                assert!(matches!(end, Ok(()) | Err(JoinError::NotStarted(_))), "{end:?}");
                assert!(spawn(|| panic!("planted")).join().is_err());
            });
        });
        assert_eq!(entered(&span), 0);
    });
}

/// A task that may migrate takes its spans along.
#[test]
fn a_migratable_task_has_its_spans_on_each_worker() {
    listen();
    with(&[2, 3, 8], |rt| {
        rt.block_on(|| {
            scope(|s| {
                for _ in 0..8 {
                    let body = || {
                        let _entered = info_span!("travels").entered();
                        for _ in 0..50 {
                            yield_now().unwrap();
                            event!("migrates");
                        }
                    };
                    // SAFETY: the guard of a span holds its id and its subscriber, and nothing of
                    // the thread. The scheduler leaves the span on the one and enters it on the
                    // other.
                    let moves = unsafe { task().migratable() };
                    moves.spawn_in(s, body);
                }
                for _ in 0..8 {
                    s.spawn(|| {
                        compute(20);
                        event!("stays");
                    });
                }
            });
        });
    });
    assert_around("\"migrates\"", "travels");
    assert_around("\"stays\"", "");
}

#[test]
fn what_runs_for_a_task_is_in_its_span_and_what_runs_for_nobody_in_none() {
    listen();
    with(&[1, 2], |rt| {
        rt.block_on(|| {
            let says = |text: &'static str| OnDrop(move || event!(text));
            let spawner = info_span!("spawner").entered();
            spawn(move || says("around: a result")).detach();
            let unstarted = spawn({
                let captured = says("around: a capture");
                move || drop(captured)
            });
            drop(spawner);
            unstarted.cancel("not needed");
            let _other = info_span!("other").entered();
            let _ = unstarted.join();
            sleep(Duration::from_millis(1)).unwrap();
            scope(|s| {
                let hook = on_cancel(|_: Cancelled| event!("around: a hook"));
                s.cancel("test");
                drop(hook);
            });
        });
    });
    assert_around("\"around: a result\"", "spawner");
    assert_around("\"around: a capture\"", "spawner");
    assert_around("\"around: a hook\"", "");
}

/// In a process of its own: the fault is for the span of this test.
#[test]
fn a_subscriber_that_panics_or_waits_stops_no_task() {
    in_own_process(|| {
        listen();
        for fault in [PANIC, WAIT] {
            runtime(1).block_on(|| {
                let _entered = info_span!("faulty").entered();
                FAULT.store(fault, Ordering::Relaxed);
                sleep(Duration::from_millis(1)).unwrap();
                assert_eq!(FAULT.load(Ordering::Relaxed), NONE, "the span was not left");
                event!("faulty");
            });
        }
        assert_around("\"faulty\"", "faulty");
    });
}

#[test]
fn actors_and_members_of_groups_carry_the_span_where_they_were_made() {
    listen();
    with_each(|rt| {
        rt.block_on(|| {
            let group = info_span!("group").in_scope(|| {
                let group = TaskGroup::<()>::new();
                group.add(|| event!("carries: member"));
                group
            });
            group.join().unwrap();
            let (actor, end) = info_span!("actor").in_scope(|| TaskActor::start(0));
            let sender = info_span!("sender");
            sender
                .in_scope(|| {
                    actor.call(|n: &mut i32| {
                        event!("carries: message");
                        *n += 1;
                    })
                })
                .unwrap();
            drop(actor);
            assert_eq!(end.join().unwrap(), 1);
        });
    });
    assert_around("\"carries: member\"", "group");
    assert_around("\"carries: message\"", "actor");
}
