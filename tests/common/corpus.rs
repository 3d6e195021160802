//! The inputs that a fuzz target has kept.

/// Calls `run` with each of them: how many there are.
pub(crate) fn each(target: &str, run: impl Fn(&[u8])) -> usize {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let entries = std::fs::read_dir(directory.join(target)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in &paths {
        // Shown if one fails.
        println!("{}", path.display());
        run(&std::fs::read(path).unwrap());
    }
    paths.len()
}
