//! Verdicts on the mutants, and their report.

use crate::marks::Mutant;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

pub(crate) enum Verdict {
    Caught { by: String, said: String, time: Duration },
    Survived { asked: usize, unfinished: Vec<String>, time: Duration },
}

/// Whether the mutant belongs to the negative control (see mutants.rs).
pub(crate) fn is_control(mutant: &Mutant) -> bool {
    mutant.name.starts_with("control.")
}

pub(crate) fn line(mutant: &Mutant, verdict: &Verdict) -> String {
    let Mutant { name, file, line, .. } = mutant;
    match verdict {
        Verdict::Caught { by, said, time } => {
            format!("caught   {name:44} {:6.1} s  {by}: {said}", time.as_secs_f64())
        }
        Verdict::Survived { asked, unfinished, time } => {
            let mut text = format!(
                "SURVIVED {name:44} {:6.1} s  {file}:{line}, {asked} runs",
                time.as_secs_f64()
            );
            if !unfinished.is_empty() {
                let _ = write!(text, ", unfinished: {}", unfinished.join(" "));
            }
            text
        }
    }
}

/// Checks that the harmless mutant survived and the harmful one was caught. Otherwise no other
/// verdict means anything.
pub(crate) fn see_to_the_control(verdicts: &[(&Mutant, Verdict)]) -> Result<(), String> {
    for (name, shall_survive) in [("control.harmless", true), ("control.harmful", false)] {
        let verdict = verdicts.iter().find(|(mutant, _)| mutant.name == name);
        let (_, verdict) = verdict.ok_or(format!("the mutant '{name}' did not run"))?;
        if matches!(verdict, Verdict::Survived { .. }) != shall_survive {
            let what = if shall_survive { "was reported" } else { "was NOT reported" };
            return Err(format!("the mutant '{name}' of the negative control {what}"));
        }
    }
    println!("negative control: the harmless mutant survived, and the harmful one was caught");
    Ok(())
}

pub(crate) fn survivors<'a>(verdicts: &[(&'a Mutant, Verdict)]) -> Vec<&'a Mutant> {
    let survived =
        |v: &&(&Mutant, Verdict)| !is_control(v.0) && matches!(v.1, Verdict::Survived { .. });
    verdicts.iter().filter(survived).map(|(mutant, _)| *mutant).collect()
}

pub(crate) fn summary(verdicts: &[(&Mutant, Verdict)], of: usize, time: Duration) -> String {
    let survivors = survivors(verdicts);
    let count = verdicts.iter().filter(|(mutant, _)| !is_control(mutant)).count();
    let all = of - verdicts.len() + count;
    let mut text = format!("{count} of {all} mutants in {:.0} s: ", time.as_secs_f64());
    match survivors.as_slice() {
        [] => text.push_str("all were caught"),
        these => {
            let _ = write!(text, "{} SURVIVED:", these.len());
            for mutant in these {
                let _ = write!(text, " {}", mutant.name);
            }
        }
    }
    text
}

/// Formats the results as a page: for each way to be caught, the protocols with their mutants.
pub(crate) fn page(verdicts: &[(&Mutant, Verdict)], time: Duration) -> String {
    let real: Vec<_> = verdicts.iter().filter(|(mutant, _)| !is_control(mutant)).collect();
    let mut page = format!(
        "# Mutants\n\nThe steps on which the protocol arguments rest, removed one at a time, and what \
         caught each removal. Written by\n\n    \
         ci/mutate.sh --write docs/mutants.md\n\nA protocol is the first part of the names of its marks in the source, \
         `// MUTANT(protocol.step): kind`; [ci/README.md](../ci/README.md#mutants) explains the kinds, and a run \
         prints each mutant with what caught it. {} mutants, {:.0} s without the build.\n\n",
        real.len(),
        time.as_secs_f64(),
    );
    let ways = ["Caught by models", "Caught by simulations", "Caught by tests"];
    for (way, title) in ways.into_iter().enumerate() {
        let mut protocols: BTreeMap<&str, usize> = BTreeMap::new();
        for (mutant, verdict) in &real {
            let Verdict::Caught { by, .. } = verdict else { continue };
            let caught_by =
                ["model", "simulation", ""].iter().position(|kind| by.starts_with(kind));
            if caught_by == Some(way) {
                let protocol = mutant.name.split(['.', '/']).next().expect("at least one part");
                *protocols.entry(protocol).or_default() += 1;
            }
        }
        let all: usize = protocols.values().sum();
        let protocols: Vec<_> = protocols.iter().map(|(name, n)| format!("{name} {n}")).collect();
        let _ = writeln!(page, "* {title}, {all}: {}", protocols.join(", "));
    }
    let survivors = survivors(verdicts);
    let names: Vec<_> = survivors.iter().map(|mutant| mutant.name.as_str()).collect();
    let _ = writeln!(page, "* Caught by nothing, {}: {}", names.len(), names.join(", "));
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(name: &str) -> Mutant {
        let text = |s: &str| s.to_owned();
        Mutant {
            name: text(name),
            kind: text("skip"),
            file: text("a/b.rs"),
            line: 3,
            code: text("a || b"),
        }
    }

    fn caught() -> Verdict {
        Verdict::Caught {
            by: "model".to_owned(),
            said: "deadlock".to_owned(),
            time: Duration::ZERO,
        }
    }

    fn survived() -> Verdict {
        Verdict::Survived { asked: 2, unfinished: Vec::new(), time: Duration::ZERO }
    }

    #[test]
    fn a_control_that_goes_wrong_is_an_error() {
        let (harmless, harmful) = (mutant("control.harmless"), mutant("control.harmful"));
        assert!(see_to_the_control(&[(&harmless, survived()), (&harmful, caught())]).is_ok());
        assert!(see_to_the_control(&[(&harmless, caught()), (&harmful, caught())]).is_err());
        assert!(see_to_the_control(&[(&harmless, survived()), (&harmful, survived())]).is_err());
        assert!(see_to_the_control(&[(&harmful, caught())]).is_err());
    }

    #[test]
    fn survivors_are_named() {
        let (one, two, control) = (mutant("a.one"), mutant("a.two"), mutant("control.harmless"));
        let verdicts = [(&control, survived()), (&one, survived()), (&two, caught())];
        assert_eq!(survivors(&verdicts), [&one]);
        assert!(
            summary(&verdicts, 5, Duration::ZERO)
                .ends_with("2 of 4 mutants in 0 s: 1 SURVIVED: a.one")
        );
        let page = page(&verdicts, Duration::ZERO);
        assert!(page.contains("\n* Caught by models, 1: a 1\n"), "{page}");
        assert!(page.ends_with("\n* Caught by nothing, 1: a.one\n"), "{page}");
    }
}
