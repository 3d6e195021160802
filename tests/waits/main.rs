//! Waits: of tasks, of futures and for a time, what runs meanwhile, and who is woken.

#[path = "../common/mod.rs"]
mod common;

mod alarms;
mod check_in;
mod descendants_only;
mod futures;
mod group;
mod group_cancels;
mod interval;
mod no_suspend;
mod parking;
mod select;
mod time;
mod timed_futures;
mod turns;
mod waiting;
mod waking;
