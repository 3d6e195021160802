//! Finding the line of the test that a thread was at.

use std::backtrace::Backtrace;
use std::path::Path;

/// The folders of this package that use the library. All other folders are the library itself.
const USERS: [&str; 4] = ["tests", "examples", "bench", "fuzz"];

/// Returns the function and place of the innermost call outside the library and the standard
/// library.
///
/// A backtrace gives only text: for each call a line with the function's name, and a line with `at`
/// and the place.
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
    // The paths of std's sources as compiled, and as installed.
    let is_of_std = text.starts_with("/rustc/") || text.contains("/rustlib/src/");
    let ours = place.strip_prefix(env!("CARGO_MANIFEST_DIR"));
    !is_of_std && ours.map_or(true, |place| USERS.iter().any(|tree| place.starts_with(tree)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_of_the_test_if_it_is_in_no_library() {
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
