//! Documents name tests; each of these has to be there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Those that name tests as evidence.
const DOCUMENTS: [&str; 1] = ["docs/soundness.md"];
/// Where tests are.
const TREES: [&str; 6] = ["tests", "retire", "scheduler", "runtime", "shim", "bench"];

/// The functions of all sources below.
fn functions(below: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let names = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
            found.extend(names.map(str::to_owned));
        }
    }
}

/// Names of tests have many words; those of the library have few.
fn is_of_a_test(name: &str) -> bool {
    name.matches('_').count() >= 4
        && name.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit())
}

#[test]
fn every_test_that_a_document_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    TREES.iter().for_each(|tree| functions(&root.join(tree), &mut found));
    for document in DOCUMENTS {
        let text = fs::read_to_string(root.join(document)).unwrap();
        // Every second part is code.
        let names: Vec<_> =
            text.split('`').skip(1).step_by(2).filter(|n| is_of_a_test(n)).collect();
        assert!(names.len() > 20, "{document} names {} tests: is it read aright?", names.len());
        let lost: Vec<_> = names.into_iter().filter(|name| !found.contains(*name)).collect();
        assert!(lost.is_empty(), "{document} names what is not there: {lost:#?}");
    }
}
