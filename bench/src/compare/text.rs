//! The page as text: aligned for a terminal, or Markdown for a document.

use super::cases::{Case, Part};
use super::contenders::wanted;
use super::page::{Page, Row};
use super::runtimes::runtimes;
use super::targets::Judged;
use crate::measure::harness::{CPU, TIME};
use crate::measure::text::{Unit, aligned, markdown_head, markdown_line};
use crate::output;

/// Prints the cases and the runtimes that run them.
///
/// # Errors
/// No case's name contains one of the filters, or the output cannot be written.
pub fn list(filters: &[String]) -> anyhow::Result<()> {
    let mut text = String::new();
    for case in wanted(filters)? {
        let runs = runtimes().filter(|runtime| runtime.run(case.name).is_some());
        let names: Vec<&str> = runs.map(|runtime| runtime.name).collect();
        text.push_str(&format!("{}: {}\n    {}\n", case.name, case.about, names.join(", ")));
    }
    if !cfg!(feature = "peers") {
        text.push_str(&format!("\n{}\n", super::HOW_TO_GET_PEERS));
    }
    output::print_text(&text)
}

/// The head of the page: machine, versions, date, rounds.
fn head(page: &Page) -> String {
    let peers: String = page.versions.iter().map(|version| format!(", {version}")).collect();
    page.run.head([&peers, ""])
}

/// The title of a part of a case in a table.
fn title(case: &Case, part: &Part) -> String {
    match part.label {
        "" => case.name.to_owned(),
        label => format!("{}, {label}", case.name),
    }
}

fn cells(row: &Row, case: &Case, part: &Part) -> [String; 6] {
    let workers = if row.runtime == "serial" { String::new() } else { row.workers.to_string() };
    let Some(figure) = row.figures.get(part.key) else {
        let empty = String::new;
        return [row.runtime.clone(), workers, "failed".to_owned(), empty(), empty(), empty()];
    };
    let cpu = row.figures.get(CPU).filter(|_| part.key == TIME);
    [
        row.runtime.clone(),
        workers,
        case.unit.show(figure.spread.value),
        figure.spread.interval(case.unit),
        case.unit.show(cpu.map_or(f64::NAN, |cpu| cpu.spread.value)),
        Unit::Ratio.show(figure.to_best),
    ]
}

/// Formats the page for a terminal.
pub fn plain(page: &Page) -> String {
    let mut text = head(page);
    for (case, part) in page.parts() {
        text.push_str(&format!("\n{}: {}\n", title(case, part), case.about));
        let heads = ["runtime", "workers", "median", "90 % of it", "CPU", "to the best"];
        let mut lines = vec![heads.map(str::to_owned)];
        // Sorted by workers. Serial work, which has one, comes first, or last if the case has more.
        let more = (!case.workers.contains(&1)).then_some(1);
        for workers in case.workers.iter().copied().chain(more) {
            let with = page.rows_of(case.name).filter(|row| row.workers == workers);
            lines.extend(with.map(|row| cells(row, case, part)));
        }
        text.push_str(&aligned(&lines));
    }
    if !page.targets.is_empty() {
        text.push('\n');
        let mut lines = vec![TARGET_HEADS.map(str::to_owned)];
        lines.extend(page.targets.iter().map(target_cells));
        text.push_str(&aligned(&lines));
    }
    text
}

const TARGET_HEADS: [&str; 6] = ["cygnet", "beside", "ratio", "at most", "target", "met"];

fn target_cells(judged: &Judged) -> [String; 6] {
    [
        judged.what.clone(),
        judged.beside.clone(),
        Unit::Ratio.show(judged.ratio),
        Unit::Ratio.show(judged.high),
        Unit::Ratio.show(judged.target),
        judged.verdict.map_or("not measured", |verdict| verdict.word()).to_owned(),
    ]
}

/// Formats the page for a document: a table with a column for each runtime, and a table of the
/// targets.
pub fn markdown(page: &Page) -> String {
    let mut text = head(page);
    let names = page.runtimes();
    let mut heads = vec!["case", "workers"];
    heads.extend(&names);
    text.push_str(&format!("\n{}", markdown_head(&heads)));
    for (case, part) in page.parts() {
        for (at, &workers) in case.workers.iter().enumerate() {
            let mut cells = vec![title(case, part), workers.to_string()];
            cells.extend(names.iter().map(|&name| {
                // Serial work has no workers. It is shown in the first line.
                let asked = if name == "serial" { 1 } else { workers };
                let shown = name != "serial" || at == 0;
                let row = page.rows_of(case.name).find(|r| r.runtime == name && r.workers == asked);
                row.filter(|_| shown).map_or_else(String::new, |row| value(row, case, part))
            }));
            text.push_str(&markdown_line(&cells));
        }
    }
    if !page.targets.is_empty() {
        text.push_str(&format!("\n{}", markdown_head(&TARGET_HEADS)));
        page.targets.iter().for_each(|judged| text.push_str(&markdown_line(&target_cells(judged))));
    }
    text
}

/// The value and, in parentheses, its ratio to the best. The best value is bold.
fn value(row: &Row, case: &Case, part: &Part) -> String {
    let Some(figure) = row.figures.get(part.key) else { return "failed".to_owned() };
    let value = case.unit.show(figure.spread.value);
    match figure.to_best {
        _ if row.runtime == "serial" => value,
        1.0 => format!("**{value}**"),
        to_best => format!("{value} ({})", Unit::Ratio.show(to_best)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::page::tests::{page, row};
    use super::*;

    fn some() -> Page {
        page(vec![
            row("fib", "serial", 1, &[30e6]),
            row("fib", "cygnet", 1, &[60e6]),
            row("fib", "cygnet", 2, &[30e6]),
            row("fib", "rayon", 2, &[150e6]),
            row("fib", "a|b", 2, &[33e6]),
        ])
    }

    #[test]
    fn a_terminal_gets_a_table_for_each_case_and_one_of_the_targets() {
        let text = plain(&some());
        assert!(text.contains("fib: fib(35)"), "{text}");
        let rayon = text.lines().find(|line| line.starts_with("rayon")).unwrap();
        let cells: Vec<_> = rayon.split_whitespace().collect();
        assert_eq!(
            cells,
            ["rayon", "2", "150", "ms", "150", "ms", "..", "150", "ms", "300", "ms", "5.00"]
        );
        assert!(text.contains("fib, 2 workers"), "{text}");
        assert!(text.contains("not measured"), "there is no chili: {text}");
    }

    #[test]
    fn the_processor_time_stands_beside_the_time_and_not_beside_the_waits() {
        let mut page = page(vec![row("contended-300", "cygnet", 1, &[300.0])]);
        let figures = &mut page.rows[0].figures;
        figures.insert("p50".to_owned(), figures[TIME].clone());
        let text = plain(&page);
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with("cygnet  ")).collect();
        assert!(lines[0].contains("600 ns") && !lines[1].contains("600 ns"), "{text}");
    }

    #[test]
    fn markdown_has_a_column_for_each_runtime() {
        let text = markdown(&some());
        assert!(text.contains("| case | workers | serial | cygnet | rayon | a\\|b |\n"), "{text}");
        assert!(text.contains("| fib | 1 | 30.0 ms | **60.0 ms** |  |  |\n"), "{text}");
        assert!(text.contains("| fib | 2 |  | **30.0 ms** | 150 ms (5.00) | 33.0 ms (1.10) |\n"));
        let bars = |line: &str| line.replace("\\|", "").matches('|').count();
        let table: Vec<_> = text.lines().filter(|line| line.starts_with("| fib |")).collect();
        assert!(table.iter().all(|line| bars(line) == 7), "{table:?}");
    }

    #[test]
    fn a_failed_contender_is_named() {
        let mut page = some();
        page.rows[3].figures.clear();
        page.rows[3].failed = Some("it failed".to_owned());
        assert!(plain(&page).contains("failed") && markdown(&page).contains("failed"));
    }
}
