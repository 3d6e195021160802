//! The contract of structured cancellation, sentence by sentence: docs/cancellation.md has the table.

mod cancellation_contract;
#[path = "../common/mod.rs"]
mod common;
mod completion_paths;
mod ignore_cancellation;
mod invariants;

use crate::common::Mutex;
use std::sync::Arc;

/// What has happened, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn add(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }

    /// A value whose drop is entered.
    fn on_drop(&self, what: &'static str) -> OnDrop {
        OnDrop(self.clone(), what)
    }

    #[track_caller]
    fn assert(&self, expected: &[&str]) {
        assert_eq!(*self.0.lock().unwrap(), expected);
    }
}

struct OnDrop(Log, &'static str);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.add(self.1);
    }
}

/// In a task: lets the others run until something was sent.
fn receive<T>(from: &common::mpsc::Receiver<T>) -> T {
    loop {
        match from.try_recv() {
            Ok(value) => return value,
            Err(_) => cygnet::yield_now().unwrap(),
        }
    }
}

/// In a task: lets the others run until so many waits more than `before` have been waited for.
fn give_way_until_parked(before: u64, more: u64) {
    let parks = || {
        let metrics = cygnet::Handle::current().metrics();
        metrics.workers.iter().map(|worker| worker.parks).sum::<u64>()
    };
    common::give_way_until(|| parks() >= before + more);
}

/// The document and the tests name each other.
#[test]
fn the_document_names_all_of_them_and_no_other() {
    let sources = [
        include_str!("completion_paths.rs"),
        include_str!("ignore_cancellation.rs"),
        include_str!("cancellation_contract.rs"),
        include_str!("invariants.rs"),
    ];
    let mut tests = std::collections::BTreeSet::new();
    for source in sources {
        let after = source.split("#[test]\nfn ").skip(1);
        tests.extend(after.map(|rest| rest.split('(').next().unwrap()));
    }
    let document = include_str!("../../docs/cancellation.md");
    let (tables, _) = document.split_once("## What is ours alone").unwrap();
    let rows = tables.lines().filter(|line| line.starts_with("| ") && line.contains("| `"));
    let named = rows.map(|row| row.split("| `").nth(1).unwrap().split('`').next().unwrap());
    let named: Vec<_> = named.collect();
    assert_eq!(named.iter().copied().collect::<std::collections::BTreeSet<_>>(), tests);
    assert_eq!(named.len(), tests.len(), "a test is named twice");
    assert!(tests.len() >= 30);
}
