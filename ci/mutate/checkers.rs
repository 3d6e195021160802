//! Maps mutants to the models and tests that should catch them: `checkers.txt`.
//!
//! A line has a prefix of mutants' names, up to a dot, and the checkers of these mutants, the
//! cheapest and most likely first. The longest prefix that fits a name applies.
//!
//! * `loom:PART`: the models with PART in their names.
//! * `unit:PART`: the unit tests with PART in their names.
//! * `test:PROGRAM` or `test:PROGRAM/PART`: the tests of that program in tests/, on real threads.
//! * `sim:PROGRAM` or `sim:PROGRAM/PART`: the same tests in simulation, each with many seeds.

use crate::marks::Mutant;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Way {
    Loom,
    Unit,
    Test,
    Sim,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Checker {
    pub(crate) way: Way,
    /// The program of integration tests, or the name of the package for models and unit tests.
    pub(crate) program: String,
    pub(crate) part: String,
}

pub(crate) type Table = Vec<(String, Vec<Checker>)>;

pub(crate) const LIBRARY: &str = "cygnet";

pub(crate) fn parse(text: &str) -> Result<Table, String> {
    let lines = text.lines().enumerate().filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
    lines.map(|(i, line)| entry(line).map_err(|e| format!("checkers.txt:{}: {e}", i + 1))).collect()
}

fn entry(line: &str) -> Result<(String, Vec<Checker>), String> {
    let mut words = line.split_whitespace();
    let name = words.next().ok_or("the line is blank")?;
    let checkers = words.map(checker).collect::<Result<Vec<_>, _>>()?;
    if checkers.is_empty() {
        return Err(format!("no checkers for '{name}'"));
    }
    Ok((name.to_owned(), checkers))
}

fn checker(word: &str) -> Result<Checker, String> {
    let (way, rest) = word.split_once(':').ok_or(format!("'{word}' has no colon"))?;
    let (way, inside) = match way {
        "loom" => (Way::Loom, true),
        "unit" => (Way::Unit, true),
        "test" => (Way::Test, false),
        "sim" => (Way::Sim, false),
        _ => return Err(format!("unknown kind of checker: '{way}'")),
    };
    let (program, part) = match rest.split_once('/') {
        _ if inside => (LIBRARY, rest),
        Some((program, part)) => (program, part),
        None => (rest, ""),
    };
    Ok(Checker { way, program: program.to_owned(), part: part.to_owned() })
}

fn fits(beginning: &str, name: &str) -> bool {
    name.strip_prefix(beginning).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/']))
}

/// The checkers of a mutant.
pub(crate) fn of<'a>(table: &'a Table, name: &str) -> Result<&'a [Checker], String> {
    let entries = table.iter().filter(|(beginning, _)| fits(beginning, name));
    let longest = entries.max_by_key(|(beginning, _)| beginning.len());
    longest.map(|(_, checkers)| checkers.as_slice()).ok_or(format!("no checkers for '{name}'"))
}

pub(crate) fn see_that_all_are_used(table: &Table, mutants: &[Mutant]) -> Result<(), String> {
    let used = |(beginning, _): &&(String, _)| !mutants.iter().any(|m| fits(beginning, &m.name));
    match table.iter().find(used) {
        Some((beginning, _)) => Err(format!("checkers.txt: no mutant begins with '{beginning}'")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &str) -> Result<Vec<String>, String> {
        let table = parse("# a remark\n\nidle loom:a::b unit:c\nidle.x test:p sim:p/d::e\n")?;
        let say = |c: &Checker| format!("{:?} {} {}", c.way, c.program, c.part);
        Ok(of(&table, name)?.iter().map(say).collect())
    }

    #[test]
    fn the_longest_beginning_counts() {
        assert_eq!(asked("idle.y"), Ok(vec!["Loom cygnet a::b".into(), "Unit cygnet c".into()]));
        assert_eq!(asked("idle.x/split"), Ok(vec!["Test p ".into(), "Sim p d::e".into()]));
        assert!(asked("idler.x").is_err());
    }

    #[test]
    fn malformed_checkers_are_errors() {
        for line in ["idle", "idle loom", "idle ask:a"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
