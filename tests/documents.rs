//! Documents name tests and functions, and tests name sentences of the specification. Each of these
//! has to be there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The documents that name tests as evidence, and the least number of names in each.
const DOCUMENTS: [(&str, usize); 2] = [("docs/soundness.md", 20), ("docs/testing.md", 1)];
/// The folders with tests.
const TREES: [&str; 13] = [
    "tests",
    "retire",
    "task",
    "scheduler",
    "runtime",
    "coroutine",
    "par",
    "ring",
    "shutdown",
    "sim",
    "sync",
    "shim",
    "bench",
];

/// Calls `visit` with the text of each source below a folder.
fn each_source(below: &Path, visit: &mut dyn FnMut(&str)) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            each_source(&path, visit);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            visit(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// Collects the names of the functions in all sources below a folder.
fn functions(below: &Path, found: &mut BTreeSet<String>) {
    each_source(below, &mut |text| {
        let names = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
        found.extend(names.map(str::to_owned));
    });
}

/// The name of a test in a document: the last part of a path, perhaps only its beginning.
struct Named<'a> {
    name: &'a str,
    goes_on: bool,
}

impl Named<'_> {
    /// Names of tests have many words, names of the library have few.
    fn from(code: &str) -> Option<Named<'_>> {
        let last = code.rsplit(['/', ':']).next()?;
        let short = last.strip_suffix("...");
        let named = Named { name: short.unwrap_or(last), goes_on: short.is_some() };
        let words = named.name.matches('_').count();
        let plain = |c: char| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit();
        (words >= if named.goes_on { 2 } else { 4 } && named.name.chars().all(plain))
            .then_some(named)
    }

    fn is_in(&self, found: &BTreeSet<String>) -> bool {
        let mut from = found.range(self.name.to_owned()..);
        let is = |name: &String| name == self.name || self.goes_on && name.starts_with(self.name);
        from.next().is_some_and(is)
    }
}

#[test]
fn every_test_that_a_document_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    TREES.iter().for_each(|tree| functions(&root.join(tree), &mut found));
    for (document, least) in DOCUMENTS {
        let text = fs::read_to_string(root.join(document)).unwrap();
        // Every second part is code; blocks of it name files.
        let named: Vec<_> = text.split('`').skip(1).step_by(2).filter_map(Named::from).collect();
        let count = named.len();
        assert!(count >= least, "{document} names {count} tests: is it read aright?");
        let lost = named.iter().filter(|named| !named.is_in(&found));
        let lost: Vec<_> = lost.map(|named| named.name).collect();
        assert!(lost.is_empty(), "{document} names what is not there: {lost:#?}");
    }
}

/// Returns whether a walk's step, `path/file.rs::function`, names a function in a file below
/// `root`.
fn is_a_step(root: &Path, step: &str) -> bool {
    let Some((file, function)) = step.rsplit_once("::") else { return false };
    let Ok(text) = fs::read_to_string(root.join(file)) else { return false };
    ["(", "<"].iter().any(|end| text.contains(&format!("fn {function}{end}")))
}

#[test]
fn every_step_of_a_walk_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let (_, walks) = text.split_once("## Walks").expect("the walks are at the end");
    let walks: Vec<_> = walks.split("### ").skip(1).collect();
    assert_eq!(walks.len(), 4);
    for walk in walks {
        let listed = walk.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        let steps: Vec<_> = listed.map(|line| line.split('`').nth(1).unwrap_or(line)).collect();
        assert!(steps.len() >= 10, "a walk has {} steps: is it read aright?", steps.len());
        let lost: Vec<_> = steps.into_iter().filter(|step| !is_a_step(root, step)).collect();
        assert!(lost.is_empty(), "docs/architecture.md walks to what is not there: {lost:#?}");
    }
    assert!(!is_a_step(root, "runtime/spawn.rs::spaw"));
    assert!(!is_a_step(root, "runtime/nowhere.rs::spawn"));
}

/// The pages of docs/spec, each with the letter of its sentences.
const SPEC: [(&str, char); 4] =
    [("tasks", 'T'), ("cancellation", 'C'), ("shutdown", 'S'), ("sequences", 'Q')];
/// Sentences that no test names. The list may only become shorter.
const WITHOUT_TEST: [&str; 3] = ["Q26", "T12", "T45"];

/// The numbers of sentences in a text: a letter of a page and digits, with nothing beside them.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| {
        let mut digits = word.chars();
        let letter = digits.next();
        letter.is_some_and(|letter| SPEC.iter().any(|page| page.1 == letter))
            && word.len() > 1
            && digits.all(|c| c.is_ascii_digit())
    })
}

/// Collects the sentences that comments name in all sources below a folder.
fn named(below: &Path, found: &mut BTreeSet<String>) {
    each_source(below, &mut |text| {
        let comments = text.lines().filter(|line| line.trim_start().starts_with("//"));
        found.extend(comments.flat_map(sentences).map(str::to_owned));
    });
}

#[test]
fn tests_name_the_sentences_of_the_specification_that_they_check() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = BTreeSet::new();
    for (page, letter) in SPEC {
        let text = fs::read_to_string(root.join(format!("docs/spec/{page}.md"))).unwrap();
        let numbers = text.lines().filter_map(|line| line.strip_prefix("* **")?.split('*').next());
        let numbers: Vec<_> = numbers.map(str::to_owned).collect();
        let expected = (1..=numbers.len()).map(|n| format!("{letter}{n}"));
        assert!(numbers.len() > 30 && numbers.iter().cloned().eq(expected), "{page}: {numbers:?}");
        all.extend(numbers);
    }
    let mut found = BTreeSet::new();
    named(&root.join("tests"), &mut found);
    let lost: Vec<_> = found.difference(&all).collect();
    assert!(lost.is_empty(), "tests name sentences that are not in docs/spec: {lost:?}");
    let without: Vec<_> = all.difference(&found).collect();
    assert_eq!(without, WITHOUT_TEST, "sentences of docs/spec that no test names");
}

#[test]
fn a_name_that_is_nowhere_is_missed() {
    let found = BTreeSet::from(["a_test_that_is_here".to_owned()]);
    let is_found = |code| Named::from(code).map(|named| named.is_in(&found));
    assert_eq!(is_found("a_test_that_is_here"), Some(true));
    assert_eq!(is_found("file/part::a_test_that_is_here"), Some(true));
    assert_eq!(is_found("a_test_that_..."), Some(true));
    assert_eq!(is_found("a_test_that_was_here"), Some(false));
    assert_eq!(is_found("a_test_that_was_..."), Some(false));
    assert_eq!(is_found("a_test_that_is_her"), Some(false));
    assert_eq!(is_found("Runtime::block_on"), None);
}
