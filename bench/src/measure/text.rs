//! Tables as text: aligned for a terminal, or Markdown for a document.

use serde::Serialize;

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Time,
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// None: the value is a ratio.
    #[serde(rename = "ratio")]
    Ratio,
}

impl Unit {
    /// Formats a value with its unit, in three or four digits. NaN, which stands for no value, is
    /// empty.
    pub fn show(self, value: f64) -> String {
        let digits = |value: f64| {
            let places = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
            format!("{value:.places$}")
        };
        match self {
            _ if value.is_nan() => String::new(),
            Unit::Ratio => digits(value),
            Unit::Bytes if value >= 100_000.0 => format!("{:.0} KiB", value / 1024.0),
            Unit::Bytes => format!("{value:.0} B"),
            Unit::Time if value >= 1e6 => format!("{} ms", digits(value / 1e6)),
            Unit::Time if value >= 1e3 => format!("{} us", digits(value / 1e3)),
            Unit::Time => format!("{} ns", digits(value)),
        }
    }
}

/// Lays out lines of cells in columns: the first and the last column flush left, the others flush
/// right.
pub fn aligned<const N: usize>(lines: &[[String; N]]) -> String {
    let width = |column: usize| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let cell = |(column, cell): (usize, &String)| {
        let width = widths[column];
        if column == 0 || column == N - 1 {
            format!("{cell:<width$}")
        } else {
            format!("{cell:>width$}")
        }
    };
    let line = |cells: &[String; N]| {
        let cells: Vec<_> = cells.iter().enumerate().map(cell).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    lines.iter().map(line).collect()
}

/// A line of a Markdown table. A bar within a cell is escaped, as it would end the cell.
pub fn markdown_line<S: AsRef<str>>(cells: &[S]) -> String {
    let cells: Vec<_> = cells.iter().map(|cell| cell.as_ref().replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// The head of a Markdown table.
pub fn markdown_head<S: AsRef<str>>(heads: &[S]) -> String {
    markdown_line(heads) + &markdown_line(&vec!["---"; heads.len()])
}

/// Whether a name has one of the filters in it, in upper or lower case, or there are no filters.
pub fn matches(name: &str, filters: &[String]) -> bool {
    let name = name.to_lowercase();
    filters.is_empty() || filters.iter().any(|filter| name.contains(&filter.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_keep_three_digits() {
        assert_eq!(Unit::Time.show(23.44), "23.4 ns");
        assert_eq!(Unit::Time.show(4512.0), "4.51 us");
        assert_eq!(Unit::Bytes.show(4369.4), "4369 B");
        assert_eq!(Unit::Ratio.show(1.023), "1.02");
        assert_eq!(Unit::Ratio.show(f64::NAN), "");
    }

    #[test]
    fn columns_are_aligned() {
        let line = |a: &str, b: &str, c: &str| [a, b, c].map(str::to_owned);
        let text = aligned(&[line("name", "1", "x"), line("n", "100", "")]);
        assert_eq!(text, "name    1  x\nn     100\n");
    }
}
