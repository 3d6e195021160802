//! The line that a measuring process prints, be it this program or another one.

use serde::{Deserialize, Serialize};

use super::cases::Case;
use super::measure::Measured;
use crate::figures::cases::Values;

/// The printed line. docs/compare.md is its specification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The program's name for the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// The program does not know the case, or does not run it with this number of workers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// Why nothing could be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The values by the keys of the case's parts, and by `cpu`.
    #[serde(default, skip_serializing_if = "Values::is_empty")]
    pub values: Values,
    /// The result of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<u64>,
}

/// The outcome of an attempt to measure.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Values, and the program's name for itself.
    Values(Values, Option<String>),
    /// The program does not run this case.
    Unknown,
    /// No values, for this reason.
    Failed(String),
}

impl From<anyhow::Result<Measured>> for Line {
    fn from(measured: anyhow::Result<Measured>) -> Line {
        match measured {
            Ok(Measured { values, checksum }) => Line { values, checksum, ..Line::default() },
            Err(error) => Line { error: Some(format!("{error:#}")), ..Line::default() },
        }
    }
}

impl Line {
    /// Parses the output of a program.
    ///
    /// # Errors
    /// A sentence, if the output is not one such line.
    pub fn read(output: &[u8]) -> Result<Line, String> {
        let text = str::from_utf8(output).map_err(|_| "it printed something that is not text")?;
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let line = lines.next().ok_or("it printed nothing")?;
        if lines.next().is_some() {
            return Err("it printed more than one line".to_owned());
        }
        serde_json::from_str(line).map_err(|error| {
            let shown: String = line.chars().take(60).collect();
            format!("it printed `{shown}`, which is not the line that it should print: {error}")
        })
    }

    /// Checks the line against the demands of the case.
    #[must_use]
    pub fn judge(self, case: &Case, quick: bool) -> Outcome {
        let Line { runtime, unknown, error, values, checksum } = self;
        if unknown {
            return Outcome::Unknown;
        }
        if let Some(error) = error {
            return Outcome::Failed(error);
        }
        for part in case.parts {
            match values.get(part.key) {
                None => return Outcome::Failed(format!("its line has no value `{}`", part.key)),
                Some(value) if !value.is_finite() || *value < 0.0 => {
                    return Outcome::Failed(format!("its value `{}` is {value}", part.key));
                }
                Some(_) => {}
            }
        }
        match (case.expected(quick), checksum) {
            (Some(expected), Some(found)) if expected != found => Outcome::Failed(format!(
                "the result of its work is {found}, which should be {expected}"
            )),
            (Some(_), None) => {
                Outcome::Failed("its line does not tell the result of its work".to_owned())
            }
            _ => Outcome::Values(values, runtime),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::find;
    use super::*;

    fn judged(case: &str, output: &str) -> Outcome {
        match Line::read(output.as_bytes()) {
            Ok(line) => line.judge(find(case).unwrap(), false),
            Err(reason) => Outcome::Failed(reason),
        }
    }

    #[track_caller]
    fn fails(case: &str, output: &str, sentence: &str) {
        match judged(case, output) {
            Outcome::Failed(reason) => assert!(reason.contains(sentence), "{reason}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_good_line_has_the_values_and_the_result() {
        let line = r#"{"runtime": "go", "values": {"time": 5e7, "cpu": 6e7}, "checksum": 9227465}"#;
        let values = Values::from([("time".to_owned(), 5e7), ("cpu".to_owned(), 6e7)]);
        assert_eq!(judged("fib", line), Outcome::Values(values, Some("go".to_owned())));
    }

    #[test]
    fn optional_fields_may_be_missing_and_unknown_fields_are_ignored() {
        let line = r#"{"values": {"time": 3}, "version": "1.2"}"#;
        let values = Values::from([("time".to_owned(), 3.0)]);
        assert_eq!(judged("yield-2", line), Outcome::Values(values, None));
    }

    #[test]
    fn a_program_may_say_that_it_does_not_know_a_case() {
        assert_eq!(judged("fib", r#"{"unknown": true}"#), Outcome::Unknown);
    }

    #[test]
    fn everything_else_is_an_error_in_a_sentence() {
        fails("fib", "", "printed nothing");
        fails("fib", "fib: 3 ms", "`fib: 3 ms`");
        fails("fib", "{}\n{}", "more than one line");
        fails("fib", r#"{"error": "no threads"}"#, "no threads");
        fails("fib", "{}", "no value `time`");
        fails("start-here", r#"{"values": {"p50": 3}}"#, "no value `p99`");
        fails("fib", r#"{"values": {"time": -1}, "checksum": 9227465}"#, "is -1");
        fails("fib", r#"{"values": {"time": 1}, "checksum": 5}"#, "should be 9227465");
        fails("fib", r#"{"values": {"time": 1}}"#, "does not tell the result");
        assert!(Line::read(b"\xff\xfe").unwrap_err().contains("not text"));
    }

    #[test]
    fn a_printed_line_can_be_read_back() {
        let measured =
            Measured { values: Values::from([("time".to_owned(), 3.5)]), checksum: Some(7) };
        let line = Line::from(Ok(measured));
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(Line::read(text.as_bytes()).unwrap(), line);
        let failed = Line::from(Err(anyhow::anyhow!("no memory")));
        assert_eq!(failed.error.as_deref(), Some("no memory"));
    }
}
