//! The inputs in the corpus of a fuzz target.

/// Calls `run` with each input, and returns their number.
pub(crate) fn each(target: &str, run: impl Fn(&[u8])) -> usize {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let entries = std::fs::read_dir(directory.join(target)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in &paths {
        // Shown if an input fails.
        println!("{}", path.display());
        run(&std::fs::read(path).unwrap());
    }
    paths.len()
}
