//! The copy of the library with the mutants in it.

use crate::marks::{Mutant, rewrite};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Path of the mutants' module in the copy, and of its parent module.
const MODULE: &str = "shim/mutants.rs";
const PARENT: &str = "shim/mod.rs";
/// The fence of `load_in_total_order` in the parent module: see mutants.rs.
const FENCE: &str = "atomic::fence(atomic::Ordering::SeqCst);";
/// This folder is left out: it has the source of that module, and texts that look like marks.
const OWN: &str = "ci/mutate/";

/// Copies the files that git knows, with their marks turned into mutants. A file that would not
/// change is left alone, so that it is not built again.
pub(crate) fn copy(checkout: &Path, tree: &Path) -> Result<Vec<Mutant>, String> {
    let files = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(checkout)
        .output()
        .map_err(|e| format!("git ls-files: {e}"))?;
    if !files.status.success() {
        return Err("git ls-files failed".to_owned());
    }
    let files = String::from_utf8(files.stdout).map_err(|e| format!("git ls-files: {e}"))?;
    // The sources in order, and the other files of the build.
    let mut sources: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for file in files.split('\0').filter(|f| !f.is_empty() && !f.starts_with(OWN)) {
        match fs::read(checkout.join(file)) {
            Ok(content) => {
                sources.insert(file.to_owned(), content);
            }
            // Removed, but not committed yet.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(format!("{file}: {e}")),
        }
    }
    let module = checkout.join(OWN).join("mutants.rs");
    let module = fs::read(&module).map_err(|e| format!("{}: {e}", module.display()))?;
    sources.insert(MODULE.to_owned(), module);
    let parent = sources.get_mut(PARENT).ok_or(format!("there is no {PARENT}"))?;
    let text = String::from_utf8(std::mem::take(parent)).map_err(|e| format!("{PARENT}: {e}"))?;
    if text.matches(FENCE).count() != 1 {
        return Err(format!(
            "{PARENT} must contain '{FENCE}' exactly once, in load_in_total_order"
        ));
    }
    let text = text.replace(FENCE, "mutants::fence_of_total_order();");
    *parent = format!("{text}\npub(crate) mod mutants;\n").into_bytes();

    let mut mutants = Vec::new();
    for (file, content) in &mut sources {
        if file.ends_with(".rs") {
            let source = std::str::from_utf8(content).map_err(|e| format!("{file}: {e}"))?;
            let (text, new) = rewrite(file, source, mutants.len() + 1)?;
            mutants.extend(new);
            *content = text.into_bytes();
        }
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = mutants.iter().find(|m| !names.insert(m.name.as_str())) {
        return Err(format!(
            "two marks are called {}: one is at {}:{}",
            twice.name, twice.file, twice.line
        ));
    }
    write(tree, &sources)?;
    Ok(mutants)
}

fn write(tree: &Path, sources: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
    remove_others(tree, tree, sources)?;
    for (file, content) in sources {
        let path = tree.join(file);
        if fs::read(&path).is_ok_and(|now| now == *content) {
            continue;
        }
        let folder = path.parent().expect("a file is in a folder");
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        fs::write(&path, content).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

/// Removes files of an earlier copy that are not in this one.
fn remove_others(
    tree: &Path,
    folder: &Path,
    sources: &BTreeMap<String, Vec<u8>>,
) -> Result<(), String> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
        let file = path.strip_prefix(tree).expect("below the tree").to_string_lossy().into_owned();
        if path.is_dir() {
            remove_others(tree, &path, sources)?;
        } else if !sources.contains_key(&file) {
            fs::remove_file(&path).map_err(|e| format!("{file}: {e}"))?;
        }
    }
    Ok(())
}
