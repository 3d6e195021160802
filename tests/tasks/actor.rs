//! Actors: state owned by one task, and answers that come or are an error.

use crate::common::prelude::*;

/// A task that asks for the number of an actor.
fn asks(actor: &TaskActor<i32>) -> Task<Result<i32, CallError>> {
    spawn(own(actor, |actor| actor.call(|n| *n)))
}

/// Sends a message, and waits until it has begun.
fn begin(actor: &TaskActor<i32>, message: impl FnOnce(&mut i32) + Send + 'static) {
    let begun = Flag::new();
    let sent = actor.send(move |n| {
        begun.set();
        message(n);
    });
    assert!(sent.is_ok());
    begun.wait();
}

#[test]
fn messages_run_one_after_the_other_in_the_order_of_the_sender() {
    with_each_and_many(|rt| {
        let n = scaled_in_debug(500);
        let (actor, body) = TaskActor::new(Vec::new());
        let owner = rt.spawn(|| body.run());
        let threads = [0, 1, 2].map(|sender| {
            common::thread::spawn(own(&actor, move |actor| {
                for i in 0..n {
                    actor.send(move |seen: &mut Vec<_>| seen.push((sender, i))).unwrap();
                }
            }))
        });
        let tasks = [3, 4].map(|sender| {
            rt.spawn(own(&actor, move |actor| {
                for i in 0..n {
                    let count = actor.call(move |seen: &mut Vec<_>| {
                        seen.push((sender, i));
                        seen.len()
                    });
                    assert!(count.unwrap() > i);
                }
            }))
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        join_all(tasks);
        drop(actor);
        let seen = owner.join().unwrap();
        assert_eq!(seen.len(), 5 * n);
        for sender in 0..5 {
            let of_it = seen.iter().filter(|(from, _)| *from == sender).map(|(_, i)| *i);
            assert!(of_it.eq(0..n), "the order of a sender is lost");
        }
    });
}

#[test]
fn a_message_may_wait_and_the_others_wait_behind_it() {
    in_task(|_| {
        let (actor, owner) = TaskActor::start(0);
        let waits = |n: &mut i32| {
            sleep(Duration::from_millis(2)).unwrap();
            yields(10);
            *n = 7;
        };
        actor.send(waits).unwrap();
        assert_eq!(actor.call(|n| *n).unwrap(), 7);
        drop(actor);
        assert_eq!(owner.join().unwrap(), 7);
    });
}

#[test]
fn a_thread_gets_its_answer_too() {
    with_each(|rt| {
        let (actor, body) = TaskActor::new(1);
        let owner = rt.spawn(|| body.run());
        for n in 1..100 {
            let before = actor.call(|state| std::mem::replace(state, *state + 1));
            assert_eq!(before, Ok(n));
        }
        actor.stop();
        assert_eq!(owner.join().unwrap(), 100);
        assert_eq!(actor.call(|state| *state), Err(CallError::Ended));
        assert!(actor.is_stopped());
    });
}

#[test]
fn stopping_runs_what_was_sent_before() {
    in_task(|_| {
        let (actor, owner) = TaskActor::start(0);
        (0..10).for_each(|_| actor.send(|n| *n += 1).unwrap());
        actor.stop();
        let refused = actor.send(|n| *n += 1).unwrap_err();
        let mut mine = 5;
        (refused.0)(&mut mine);
        assert_eq!(mine, 6, "the message is given back");
        assert_eq!(owner.join().unwrap(), 10);
    });
}

#[test]
fn a_cancel_gives_the_callers_an_error_and_the_state_back() {
    in_task(|_| {
        let drops = Drops::new();
        let (actor, owner) = TaskActor::start(0);
        begin(&actor, |n| {
            assert!(park().is_err());
            *n = 7;
        });
        let captured = drops.guard();
        actor.send(move |_| drop(captured)).unwrap();
        let caller = asks(&actor);
        yield_now().unwrap();
        owner.cancel("enough");
        assert_eq!(caller.join().unwrap(), Err(CallError::Ended));
        assert_eq!(owner.join().unwrap(), 7);
        assert_eq!(drops.left(), 0, "a message that was not run is dropped");
    });
}

#[test]
fn a_message_that_panics_ends_the_actor_and_all_its_calls() {
    in_task(|_| {
        let (actor, owner) = TaskActor::start(0);
        let results = join_all((0..5).map(|i| {
            spawn(own(&actor, move |actor| {
                actor.call(move |n| {
                    if i == 2 {
                        resume_unwind(Box::new("on purpose"));
                    }
                    *n += 1;
                })
            }))
        }));
        assert_eq!(results[2], Err(CallError::Ended));
        assert!(owner.join().unwrap_err().is_panic());
        assert_eq!(actor.call(|n| *n), Err(CallError::Ended));
    });
}

#[test]
fn dropping_the_task_or_never_running_it_is_an_error_for_callers() {
    in_task(|_| {
        let (actor, owner) = TaskActor::start(0);
        drop(owner);
        // If it has begun, it may have taken a message before it sees that it is cancelled.
        give_way_until(|| actor.call(|n| *n) != Ok(0));
        assert_eq!(actor.call(|n| *n), Err(CallError::Ended));

        let (actor, body) = TaskActor::new(0);
        let caller = asks(&actor);
        yield_now().unwrap();
        drop(body);
        assert_eq!(caller.join().unwrap(), Err(CallError::Ended));
        // In a scope that is cancelled it never starts.
        scope(|s| {
            s.cancel("too late");
            let (actor, owner) = TaskActor::start(0);
            let refused = owner.join();
            assert!(matches!(refused, Err(JoinError::NotStarted(_) | JoinError::Cancelled(_))));
            assert!(actor.call(|n| *n).is_err());
        });
    });
}

#[test]
fn a_caller_that_is_cancelled_leaves_and_its_message_is_not_run() {
    in_task(|_| {
        let open = Flag::new();
        let (actor, owner) = TaskActor::start(0);
        begin(&actor, move |_| open.wait());
        let late = timeout(Duration::from_millis(2), || actor.call(|n| *n += 1));
        assert!(matches!(late.unwrap_err().into_inner(), Err(CallError::Cancelled(_))));
        open.set();
        assert_eq!(actor.call(|n| *n).unwrap(), 0);
        // A call of a cancelled task sends nothing, while the actor waits for messages.
        let called = actor.clone();
        let calls = move || {
            cancel_handle().cancel("enough");
            called.call(|n| *n += 1)
        };
        assert!(matches!(spawn(calls).join().unwrap(), Err(CallError::Cancelled(_))));
        drop(actor);
        assert_eq!(owner.join().unwrap(), 0);
    });
}

#[test]
fn an_answer_that_comes_while_its_caller_is_cancelled_is_not_lost() {
    in_task_with(&[1], |_| {
        let calls = || {
            let (actor, owner) = TaskActor::start(6);
            let caller = cancel_handle();
            let answer = actor.call(move |n| {
                caller.cancel("enough");
                *n += 1;
                *n
            });
            (answer, owner)
        };
        assert_eq!(spawn(calls).join().unwrap().0, Ok(7));
    });
}

#[test]
fn a_message_may_not_call_its_own_actor_and_may_drop_the_last_address() {
    in_task(|_| {
        let (actor, owner) = TaskActor::start(1);
        let same = actor.clone();
        let result = actor.call(move |_| same.call(|n| *n));
        assert_eq!(result.unwrap(), Err(CallError::OwnCall));
        let last = actor.clone();
        let drops_it = move |n: &mut i32| {
            *n += 1;
            drop(last);
        };
        actor.send(drops_it).unwrap();
        drop(actor);
        assert_eq!(owner.join().unwrap(), 2);
    });
}

/// The waits of a message are not mixed up with the mailbox's own.
#[test]
fn an_unpark_for_a_message_is_not_taken_by_the_mailbox_for_good() {
    in_task_with(&[1, 2, 3], |_| {
        let (actor, body) = TaskActor::new(0);
        let owner = spawn(move || body.run());
        for _ in 0..scaled_in_debug(200) {
            let (give, given) = channel();
            let waits = move |n: &mut usize| {
                give.send(cygnet::unparker()).unwrap();
                park().unwrap();
                *n += 1;
            };
            actor.send(waits).unwrap();
            received(&given).unpark();
            actor.call(|_| ()).unwrap();
        }
        actor.stop();
        assert_eq!(owner.join().unwrap(), scaled_in_debug(200));
    });
}

#[test]
fn an_unpark_that_comes_between_two_messages_is_for_the_next_one() {
    in_task(|_| {
        let (actor, body) = TaskActor::new(());
        let owner = spawn(move || body.run());
        for _ in 0..scaled_in_debug(100) {
            let unparker = actor.call(|()| cygnet::unparker()).unwrap();
            // It waits in the mailbox by now, or is about to.
            yield_now().unwrap();
            unparker.unpark();
            yield_now().unwrap();
            actor.call(|()| park().unwrap()).unwrap();
        }
        actor.stop();
        owner.join().unwrap();
    });
}

#[test]
fn a_state_whose_destructor_calls_its_own_actor_gets_an_error() {
    #[derive(Clone, Default)]
    struct Own(Arc<Mutex<Option<TaskActor<Calls>>>>);
    struct Calls(Own);
    impl Drop for Calls {
        fn drop(&mut self) {
            let actor = self.0.0.lock().unwrap().take().unwrap();
            assert_eq!(actor.call(|_| ()), Err(CallError::Ended));
        }
    }
    for runs in [true, false] {
        within(|| {
            let own = Own::default();
            let (actor, body) = TaskActor::new(Calls(own.clone()));
            actor.stop();
            *own.0.lock().unwrap() = Some(actor);
            if runs {
                drop(runtime(1).block_on(move || body.run()));
            } else {
                drop(body);
            }
            assert!(own.0.lock().unwrap().is_none(), "the destructor has called");
        });
    }
}

#[test]
fn an_actor_whose_message_panics_is_stopped_before_its_state_is_dropped() {
    /// Tells whether its actor is stopped when it is dropped.
    struct Tells(Option<(TaskActor<Tells>, common::mpsc::Sender<bool>)>);
    impl Drop for Tells {
        fn drop(&mut self) {
            if let Some((actor, tell)) = self.0.take() {
                tell.send(actor.is_stopped()).unwrap();
            }
        }
    }
    for moves in [false, true] {
        in_task(|_| {
            let (actor, owner) = if moves {
                TaskActor::start(Tells(None))
            } else {
                let (actor, body) = TaskActor::new(Tells(None));
                (actor, spawn(move || body.run()))
            };
            let (tell, told) = channel();
            let address = actor.clone();
            let panics = move |state: &mut Tells| {
                state.0 = Some((address, tell));
                resume_unwind(Box::new("on purpose"));
            };
            assert!(actor.send(panics).is_ok());
            assert!(owner.join().is_err_and(|error| error.is_panic()));
            assert!(told.try_recv().unwrap(), "the state is dropped first");
        });
    }
}

#[test]
fn the_end_of_the_runtime_ends_the_actor_and_its_callers() {
    with_own(|rt| {
        let (actor, body) = TaskActor::new(7);
        let owner = rt.spawn(|| body.run());
        let before = parks(&rt);
        let held = actor.clone();
        actor.send(|_| assert!(park().is_err())).unwrap();
        let thread = common::thread::spawn(move || held.call(|n| *n));
        eventually("it waits", || parks(&rt) > before);
        drop(rt);
        assert_eq!(thread.join().unwrap(), Err(CallError::Ended));
        assert_eq!(owner.join().unwrap(), 7);
    });
}

#[test]
fn calls_cancels_stops_and_panics_race() {
    in_task_and_many(|_| {
        let drops = Drops::new();
        for round in 0..scaled_in_debug(200) {
            let answered = Count::new();
            let ended = payload_of(|| {
                scope(|s| {
                    let (actor, owner) = TaskActor::start(drops.guard());
                    for i in 0..6 {
                        let (actor, value) = (actor.clone(), drops.guard());
                        s.spawn(move || {
                            let answer = actor.call(move |_| {
                                if (round + i) % 11 == 0 {
                                    resume_unwind(Box::new("on purpose"));
                                }
                                if i % 2 == 0 {
                                    let _ = yield_now();
                                }
                                value
                            });
                            answered.add(usize::from(answer.is_ok()));
                        });
                    }
                    match round % 4 {
                        0 => owner.cancel("enough"),
                        1 => actor.stop(),
                        2 => s.cancel("all of you"),
                        _ => {}
                    }
                    drop(actor);
                    drop(owner.join());
                })
            });
            if let Some(payload) = ended {
                // The join was refused, so the panic of the message comes from the scope.
                assert_eq!(round % 4, 2);
                assert_eq!(payload.downcast_ref(), Some(&"on purpose"));
            }
            assert!(answered.get() <= 6);
            assert_eq!(drops.left(), 0);
        }
    });
}

/// The worker on which the messages have run so far computes.
#[test]
fn the_next_message_runs_on_a_worker_that_is_free() {
    in_task_with(&[2, 3, 8], |_| {
        let (actor, owner) = TaskActor::start(0);
        for _ in 0..scaled_in_debug(100) {
            assert!(actor.call(|n| *n += 1).is_ok());
            let (called, address) = (Flag::new(), actor.clone());
            let caller = spawn(move || {
                assert!(address.call(|n| *n += 1).is_ok());
                called.set();
            });
            called.spin();
            caller.join().unwrap();
        }
        actor.stop();
        assert_eq!(owner.join().unwrap(), 2 * scaled_in_debug(100));
    });
}

#[test]
fn messages_see_the_bindings_of_the_task_that_has_spawned_the_actor() {
    static NAME: TaskLocal<&str> = TaskLocal::new();
    in_task(|_| {
        let see = |_: &mut ()| NAME.with(|name| name.copied());
        let (actor, owner) = NAME.scope("outer", || TaskActor::start(()));
        assert_eq!(actor.call(see).unwrap(), Some("outer"));
        let address = actor.clone();
        let inner = NAME.scope("inner", || spawn(move || address.call(see).unwrap()));
        assert_eq!(inner.join().unwrap(), Some("outer"));
        actor.stop();
        owner.join().unwrap();
    });
}

/// A message keeps something of its task, and the next message uses that. Returns what this and a
/// third message see of it.
fn seen_of<K: Send + 'static>(keep: fn() -> K, apply: fn(K), sees: fn() -> bool) -> Vec<bool> {
    let (actor, owner) = TaskActor::start(Vec::new());
    let (give, given) = channel();
    actor.send(move |_| give.send(keep()).unwrap()).unwrap();
    let applies = move |seen: &mut Vec<_>| {
        apply(received(&given));
        seen.push(sees());
    };
    assert!(actor.send(applies).is_ok());
    actor.send(move |seen| seen.push(sees())).unwrap();
    actor.stop();
    owner.join().unwrap()
}

#[test]
fn a_late_cancel_of_a_message_reaches_no_other_message_and_does_not_end_the_actor() {
    in_task(|_| {
        let by_handle = seen_of(cancel_handle, |handle| handle.cancel("late"), is_cancelled);
        assert_eq!(by_handle, [false, false]);
        let by_lease = seen_of(cygnet::lease, |lease| lease.cancel("late"), is_cancelled);
        assert_eq!(by_lease, [false, false]);
        let own = seen_of(|| cancel_handle().cancel("enough"), |()| (), is_cancelled);
        assert_eq!(own, [false, false]);
    });
}

#[test]
fn a_late_unpark_of_a_message_ends_no_park_of_another_message() {
    in_task(|_| {
        let parks = || timeout(Duration::from_millis(2), park).is_ok();
        let late = seen_of(cygnet::unparker, |unparker| unparker.unpark(), parks);
        assert_eq!(late, [false, false]);
        let own = seen_of(|| cygnet::unparker().unpark(), |()| (), parks);
        assert_eq!(own, [false, false]);
    });
}

#[test]
fn messages_that_give_no_handle_away_share_a_task() {
    in_task_with(&[1], |_| {
        let (actor, owner) = TaskActor::start(Vec::new());
        let tell = |seen: &mut Vec<_>| seen.push(current_id());
        (0..10).for_each(|_| assert!(actor.send(tell).is_ok()));
        actor.stop();
        let seen = owner.join().unwrap();
        assert_eq!(seen, vec![seen[0]; 10]);
    });
}

#[test]
fn a_hook_of_a_message_is_not_told_of_the_cancel_of_another_message() {
    in_task(|_| {
        let told = Flag::new();
        let (actor, owner) = TaskActor::start(Vec::new());
        actor.send(move |hooks| hooks.push(on_cancel(move |_| told.set()))).unwrap();
        actor.send(|_: &mut Vec<_>| cancel_handle().cancel("enough")).unwrap();
        actor.stop();
        drop(owner.join().unwrap());
        assert!(!told.get());
    });
}
