//! The line that a measuring process prints, be it this program or another one.

use serde::{Deserialize, Serialize};

use super::harness::{Measured, Values};

/// The printed line. docs/compare.md is its specification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// The program's name for the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// The program does not know the case, or does not run it with this number of workers.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// Why nothing could be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The values by their keys.
    #[serde(skip_serializing_if = "Values::is_empty")]
    pub values: Values,
    /// The result of the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<u64>,
    /// The floors in the same process, which only `bench` measures.
    #[serde(skip_serializing_if = "Values::is_empty")]
    pub floors: Values,
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
}
