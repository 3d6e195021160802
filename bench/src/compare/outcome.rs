//! The line that a process prints, checked against the demands of its case.

use super::cases::Case;
use crate::measure::harness::Values;
use crate::measure::line::Line;

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

impl Outcome {
    /// Checks the line against the demands of the case.
    pub fn judge(line: Line, case: &Case, quick: bool) -> Outcome {
        let Line { runtime, unknown, error, values, checksum, .. } = line;
        if unknown {
            return Outcome::Unknown;
        }
        if let Some(error) = error {
            return Outcome::Failed(error);
        }
        for part in case.parts {
            let Some(value) = values.get(part.key) else {
                return Outcome::Failed(format!("its line has no value `{}`", part.key));
            };
            if !value.is_finite() || *value < 0.0 {
                return Outcome::Failed(format!("its value `{}` is {value}", part.key));
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
    use crate::measure::harness::Measured;

    fn judged(case: &str, output: &str) -> Outcome {
        let judge = |line| Outcome::judge(line, find(case).unwrap(), false);
        Line::read(output.as_bytes()).map_or_else(Outcome::Failed, judge)
    }

    #[test]
    fn a_good_line_has_the_values_and_the_result_or_says_that_the_case_is_unknown() {
        let line = r#"{"runtime": "go", "values": {"time": 5e7, "cpu": 6e7}, "checksum": 9227465}"#;
        let values = Measured::of([("time", 5e7), ("cpu", 6e7)]).values;
        assert_eq!(judged("fib", line), Outcome::Values(values, Some("go".to_owned())));
        // Optional fields may be missing, and unknown fields are ignored.
        let line = r#"{"values": {"time": 3}, "version": "1.2"}"#;
        let values = Measured::of([("time", 3.0)]).values;
        assert_eq!(judged("yield-2", line), Outcome::Values(values, None));
        assert_eq!(judged("fib", r#"{"unknown": true}"#), Outcome::Unknown);
    }

    #[test]
    fn everything_else_is_an_error_in_a_sentence() {
        for (case, output, sentence) in [
            ("fib", "", "printed nothing"),
            ("fib", "fib: 3 ms", "`fib: 3 ms`"),
            ("fib", "{}\n{}", "more than one line"),
            ("fib", r#"{"error": "no threads"}"#, "no threads"),
            ("fib", "{}", "no value `time`"),
            ("start-here", r#"{"values": {"p50": 3}}"#, "no value `p99`"),
            ("fib", r#"{"values": {"time": -1}, "checksum": 9227465}"#, "is -1"),
            ("fib", r#"{"values": {"time": 1}, "checksum": 5}"#, "should be 9227465"),
            ("fib", r#"{"values": {"time": 1}}"#, "does not tell the result"),
        ] {
            let outcome = judged(case, output);
            let Outcome::Failed(reason) = outcome else { panic!("{outcome:?}") };
            assert!(reason.contains(sentence), "{reason}");
        }
        assert!(Line::read(b"\xff\xfe").unwrap_err().contains("not text"));
    }

    #[test]
    fn a_printed_line_can_be_read_back() {
        let measured = Measured { checksum: Some(7), ..Measured::of([("time", 3.5)]) };
        let line = Line::from(Ok(measured));
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(Line::read(text.as_bytes()).unwrap(), line);
        let failed = Line::from(Err(anyhow::anyhow!("no memory")));
        assert_eq!(failed.error.as_deref(), Some("no memory"));
    }
}
