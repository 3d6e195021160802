//! How sets lie within each other, how far a stop goes, and how long a node lives: short programs,
//! compared with the plain model after each step.

use super::model::{Part, World};

/// The programs, each with what it is about. A step names a node by the number of its making; node
/// 0 is there from the beginning, and `root` makes another root. An interrupt waits, `hold` has it
/// hold a guard, and a `crowd` is many children that are made and dropped, which would sweep a
/// list of children.
const PROGRAMS: [(&str, &str); 28] = [
    // S7, S23.
    (
        "children without guards, which are invisible above",
        "completion 0, guard 0, child 0, child 1, drop-handle 2, drop-handle 1, child 0, child 3, \
         guard 3, drop-guard 3, guard 4, drop-guard 4, drop-handle 3, drop-handle 4, stop 0, \
         child 0, child 5, drop-handle 5, drop-handle 6, drop-guard 0",
    ),
    // S2.
    (
        "handles, children and interrupts, which do not count",
        "clone 0, child 0, child 1, interrupt 0, interrupt 2, completion 0, guard 1, drop-guard 1, \
         guard 2, drop-guard 2, stop 0",
    ),
    // S3, S8, S22.
    (
        "a guard, which is in the set of every ancestor",
        "child 0, child 1, child 2, child 3, completion 0, completion 2, completion 4, guard 4, \
         guard 2, drop-guard 2, clone-guard 4, stop 0, drop-guard 4, drop-guard 4",
    ),
    // S1, S4, S9.
    (
        "counts, which are those of the subtree",
        "root, child 0, child 0, child 2, guard 1, guard 0, guard 2, guard 4, interrupt 4, hold 4, \
         clone-guard 4, drop-guard 2, guard 3, guard 3, stop 3, drop-guard 0, drop-guard 4, \
         drop-interrupt 4, drop-guard 4, drop-guard 3, drop-guard 3, drop-guard 1",
    ),
    // S35, S36, S39, S40.
    (
        "a stop, which goes all the way down and not up",
        "root, child 0, child 2, child 3, child 0, interrupt 0, interrupt 1, interrupt 2, \
         interrupt 3, interrupt 4, interrupt 5, guard 0, guard 1, guard 4, guard 5, drop-handle 3, \
         completion 0, stop 2, drop-guard 4, child 0, drop-handle 2",
    ),
    // S48, S49.
    (
        "completions, which gather upward",
        "child 0, child 0, child 1, child 3, guard 0, guard 1, guard 4, guard 2, completion 0, \
         completion 1, completion 4, completion 2, stop 1, stop 0, drop-guard 1, drop-guard 4, \
         drop-guard 0, drop-guard 2",
    ),
    // S10, S11, S12, S13, S14, S16, S17.
    (
        "states, which follow the stop and the guards below",
        "child 0, child 1, completion 0, guard 2, stop 1, drop-guard 2, guard 1, stop 0, \
         drop-guard 1, guard 1, drop-guard 1",
    ),
    // S15.
    (
        "a stop without guards",
        "interrupt 0, guard 0, drop-guard 0, completion 0, stop 0, completion 0",
    ),
    // S24, S50.
    ("a guard after the completion", "stop 0, guard 0, stop 0, completion 0, drop-guard 0"),
    // S5.
    (
        "a clone, which is another handle to the same set",
        "clone 0, guard 0, guard 0, clone 0, drop-handle 0, stop 0, drop-guard 0, clone 0, \
         drop-handle 0, drop-guard 0",
    ),
    // S20, S21.
    (
        "guards and clones of guards, each of which counts",
        "guard 0, guard 0, clone-guard 0, clone-guard 0, stop 0, drop-guard 0, drop-guard 0, \
         drop-guard 0, drop-guard 0",
    ),
    // S35, S52.
    (
        "more than one stop, and a completion that is dropped",
        "guard 0, stop 0, stop 0, stop 0, drop-completion 0, drop-guard 0, stop 0",
    ),
    // S41.
    (
        "the last handle of a root, which stops the root and its descendants",
        "child 0, child 1, interrupt 0, interrupt 1, interrupt 2, signal 0, signal 2, \
         completion 0, completion 1, completion 2, clone 0, drop-handle 0, drop-handle 0, child 2",
    ),
    // S42, S48.
    (
        "guards, interrupts and completions, which are no handles of a root",
        "child 0, child 1, interrupt 0, hold 0, interrupt 1, guard 0, guard 1, guard 2, \
         completion 0, completion 1, completion 2, drop-handle 0, drop-interrupt 0, drop-guard 0, \
         drop-guard 1, drop-guard 2, child 1",
    ),
    // S69, S70, S73.
    ("a child that a handle keeps", "child 0, interrupt 1, clone 1, drop-handle 1, drop-handle 1"),
    ("a child that a guard keeps", "child 0, interrupt 1, guard 1, drop-handle 1, drop-guard 1"),
    (
        "a child that a completion keeps",
        "child 0, interrupt 1, completion 1, drop-handle 1, drop-completion 1",
    ),
    (
        "a child that a descendant keeps",
        "child 0, interrupt 1, child 1, drop-handle 1, drop-handle 2",
    ),
    ("a completion of a child without handles", "child 0, completion 1, drop-handle 1, stop 0"),
    // S71.
    (
        "ancestors that a descendant keeps",
        "child 0, child 1, child 2, interrupt 1, interrupt 2, drop-handle 1, drop-handle 2, \
         guard 3, drop-handle 3, drop-guard 3",
    ),
    // S74.
    (
        "descendants, which an ancestor does not keep",
        "guard 0, completion 0, child 0, child 1, interrupt 2, drop-handle 2, interrupt 1, \
         drop-handle 1",
    ),
    // S24, S25.
    (
        "late guards, which delay what has not resolved and undo nothing",
        "child 0, guard 1, completion 1, stop 0, guard 1, drop-guard 1, drop-guard 1, guard 0, \
         stop 0, drop-guard 0, guard 1, stop 0, drop-guard 1, stop 0",
    ),
    // S37.
    (
        "a child of a stopped parent, which is stopped from birth",
        "guard 0, stop 0, child 0, child 1, interrupt 1, signal 1, completion 1, guard 1, \
         drop-guard 0, drop-guard 1",
    ),
    // S27, S43, S72.
    (
        "a child without handles, which stays as it is until its parent stops",
        "child 0, child 1, child 2, interrupt 2, interrupt 3, guard 2, guard 1, clone-guard 2, \
         drop-handle 2, drop-handle 1, drop-guard 1, stop 0, drop-guard 2, drop-guard 2",
    ),
    (
        "a stopped child without handles",
        "child 0, child 1, child 2, interrupt 2, interrupt 3, guard 2, guard 1, clone-guard 2, \
         stop 2, drop-handle 2, drop-handle 1, drop-guard 1, stop 0, drop-guard 2, drop-guard 2",
    ),
    (
        "a guard of a child that is dropped at once",
        "child 0, guard 1, drop-handle 1, completion 0, stop 0, clone-guard 1, drop-guard 1, \
         drop-guard 1",
    ),
    (
        "guards without handles, ancestors and watchers, which are just dropped",
        "guard 0, drop-handle 0, clone-guard 0, drop-guard 0, drop-guard 0",
    ),
    // S75.
    (
        "a stop, which finds a node without handles that is guarded again",
        "child 0, child 1, interrupt 1, drop-handle 1, guard 2, drop-guard 2, crowd 0, guard 2, \
         crowd 0, stop 0, drop-guard 2",
    ),
];

/// Plays a program with `above` nodes above node 0, the lower of which has no handle.
fn play(program: &str, above: usize) {
    let mut world = World::default();
    let first = (0..=above).fold(0, |_, n| if n == 0 { world.root() } else { world.child(n - 1) });
    if above == 2 {
        world.drop_part(1, Part::Handle, 0);
    }
    for step in program.split(", ") {
        let (what, node) = step.split_once(' ').unwrap_or((step, "0"));
        let n = first + node.parse::<usize>().unwrap();
        match what {
            "root" => _ = world.root(),
            "child" => _ = world.child(n),
            "clone" => world.clone_handle(n),
            "guard" => world.guard(n),
            "clone-guard" => world.clone_guard(n),
            "completion" => world.completion(n, true),
            "signal" => world.signal(n, true),
            "interrupt" => world.interrupt(n, true),
            "hold" => world.guard_interrupt(n, 0),
            "stop" => world.shut_down(n, true),
            "crowd" => world.crowd(n),
            "drop-handle" => world.drop_part(n, Part::Handle, 0),
            "drop-guard" => world.drop_part(n, Part::Guard, 0),
            "drop-completion" => world.drop_part(n, Part::Completion, 0),
            "drop-interrupt" => world.drop_part(n, Part::Interrupt, 0),
            other => panic!("no step: {other}"),
        }
        world.check();
    }
}

#[test]
fn short_programs_do_what_the_plain_model_does() {
    for (what, program) in PROGRAMS {
        // As a root, as a child of a root, and below a parent without a handle.
        for above in 0..3 {
            println!("{what}, {above} above"); // Shown if it fails.
            play(program, above);
        }
    }
}
