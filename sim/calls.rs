//! Which line of the test a thread was at.

use std::backtrace::Backtrace;
use std::path::Path;

/// The folders of this package whose sources use the library; all others are the library itself.
const USERS: [&str; 3] = ["tests", "examples", "bench"];

/// The innermost call in a file that is neither the library's nor the standard library's: the function, and its place.
///
/// A backtrace can only be asked for its text: a line with the name of a function, and one with `at` and the place, for each call.
pub(super) fn of_the_test(calls: &Backtrace) -> Option<String> {
    let text = calls.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let here = std::env::current_dir().unwrap_or_default();
    lines.windows(2).find_map(|pair| {
        let place = pair[1].strip_prefix("at ")?;
        is_of_the_test(&here.join(place.trim_start_matches("./"))).then(|| {
            let function = pair[0].split_once(": ").map_or(pair[0], |(_, function)| function);
            format!("{function} at {place}")
        })
    })
}

fn is_of_the_test(place: &Path) -> bool {
    let text = place.to_string_lossy();
    // As it was compiled, and where it is installed.
    let is_of_std = text.starts_with("/rustc/") || text.contains("/rustlib/src/");
    let ours = place.strip_prefix(env!("CARGO_MANIFEST_DIR"));
    !is_of_std && ours.map_or(true, |place| USERS.iter().any(|tree| place.starts_with(tree)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_of_the_test_if_it_is_nobody_elses() {
        let library = Path::new(env!("CARGO_MANIFEST_DIR"));
        for ours in ["shim/sim/atomic.rs:1:2", "sync/mutex.rs:1:2"] {
            assert!(!is_of_the_test(&library.join(ours)), "{ours}");
        }
        for of_std in [
            "/rustc/5980/library/core/src/option.rs:1:2",
            "/x/lib/rustlib/src/rust/library/std/src/lib.rs:1:2",
        ] {
            assert!(!is_of_the_test(Path::new(of_std)), "{of_std}");
        }
        assert!(is_of_the_test(&library.join("tests/sim/main.rs:1:2")));
        assert!(is_of_the_test(Path::new("/elsewhere/runtime/main.rs:1:2")));
    }
}
