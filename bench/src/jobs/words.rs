//! Splitting bytes into words, and tables of words.
//!
//! A word is a run of letters and digits (Unicode's alphabetic and numeric characters), taken in
//! lower case. Bytes that are not UTF-8 belong to no word.

use std::collections::HashMap;

use serde::Serialize;

/// How often each word occurs.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Tally(HashMap<Box<str>, u64>);

impl Tally {
    /// Counts the words in `text`.
    pub(crate) fn read(&mut self, text: &[u8]) {
        let mut lower = String::new();
        for chunk in text.utf8_chunks() {
            for word in chunk.valid().split(|letter: char| !letter.is_alphanumeric()) {
                if word.is_empty() {
                    continue;
                }
                if word.is_ascii() {
                    lower.clear();
                    lower.push_str(word);
                    lower.make_ascii_lowercase();
                } else {
                    // Letter by letter is not enough: a final sigma depends on its neighbours.
                    lower = word.to_lowercase();
                }
                self.add(&lower);
            }
        }
    }

    fn add(&mut self, word: &str) {
        match self.0.get_mut(word) {
            Some(count) => *count += 1,
            None => _ = self.0.insert(word.into(), 1),
        }
    }

    /// The sum of two tallies.
    pub(crate) fn merged(self, other: Self) -> Self {
        let (mut large, small) =
            if self.0.len() < other.0.len() { (other.0, self.0) } else { (self.0, other.0) };
        for (word, count) in small {
            *large.entry(word).or_default() += count;
        }
        Self(large)
    }

    /// How many different words there are.
    pub(crate) fn distinct(&self) -> u64 {
        self.0.len() as u64
    }

    /// How many words there are in all.
    pub(crate) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// The `k` most frequent words; equally frequent words are in the order of their bytes.
    pub(crate) fn top(&self, k: usize) -> Vec<Frequency> {
        let mut words: Vec<_> = self.0.iter().collect();
        words.sort_unstable_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
        let top = words.into_iter().take(k);
        top.map(|(word, &count)| Frequency { word: word.to_string(), count }).collect()
    }
}

/// A word and how often it occurs.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Frequency {
    pub(crate) word: String,
    pub(crate) count: u64,
}

/// Returns the first place in `ahead` at which the text may be cut. `ahead` is the text from some
/// place on, up to its end or to `limit` bytes.
///
/// The cut is at the first ASCII byte that belongs to no word, or at the end of the text. If
/// there is neither within the limit, it is before the first whole character. That may halve a
/// word, but both neighbouring readers find the same cut, and neither reads on without bound.
pub(crate) fn first_cut(ahead: &[u8], limit: usize) -> usize {
    let is_continuation = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    match ahead.iter().position(is_separator) {
        Some(cut) => cut,
        None if ahead.len() < limit => ahead.len(),
        None => ahead.iter().take(3).take_while(is_continuation).count(),
    }
}

/// Returns the last place at which `bytes` may be cut. More text follows `bytes`.
pub(crate) fn last_cut(bytes: &[u8]) -> usize {
    if let Some(cut) = bytes.iter().rposition(is_separator) {
        return cut;
    }
    let starts = |byte: &u8| *byte & 0b1100_0000 == 0b1100_0000;
    let whole = bytes.len().saturating_sub(3);
    // A character halved by the end begins in one of the last three bytes.
    match bytes[whole..].iter().rposition(starts) {
        Some(start) if whole + start > 0 => whole + start,
        _ => bytes.len(),
    }
}

/// Whether the byte is ASCII and belongs to no word.
fn is_separator(byte: &u8) -> bool {
    byte.is_ascii() && !byte.is_ascii_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(text: &[u8]) -> Tally {
        let mut tally = Tally::default();
        tally.read(text);
        tally
    }

    fn top(tally: &Tally) -> String {
        let line = |Frequency { word, count }| format!("{word} {count}");
        tally.top(9).into_iter().map(line).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn words_are_runs_of_letters_and_digits_in_lower_case() {
        let words = tally("Swan, swan; SWÄN schwän2 — swan's\n".as_bytes());
        assert_eq!(top(&words), "swan 3, s 1, schwän2 1, swän 1");
        assert_eq!((words.total(), words.distinct()), (6, 4));
        assert_eq!(top(&tally(b"a\xffb\xc3 a")), "a 2, b 1", "other bytes separate words");
        let merged = tally(b"a b a").merged(tally(b"b c d e b"));
        assert_eq!(merged, tally(b"a a b b b c d e"));
    }

    #[test]
    fn a_cut_at_any_place_divides_the_words_and_loses_none() {
        let text = "Ein Schwän, zwei Schwäne und drei 🦢🦢.\n".as_bytes();
        for place in 0..=text.len() {
            let cut = place + first_cut(&text[place..], 64);
            assert_eq!(
                tally(&text[..cut]).merged(tally(&text[cut..])),
                tally(text),
                "first cut from {place} at {cut}"
            );
            let cut = last_cut(&text[..place]);
            if cut > 0 && text[..place].iter().any(is_separator) {
                assert_eq!(
                    tally(&text[..cut]).merged(tally(&text[cut..])),
                    tally(text),
                    "last cut before {place} at {cut}"
                );
            }
        }
    }

    #[test]
    fn without_separators_no_character_is_halved() {
        let text = "äöü".repeat(5).into_bytes();
        for place in 0..text.len() {
            let cut = place + first_cut(&text[place..], 1);
            assert!(str::from_utf8(&text[..cut]).is_ok(), "first cut from {place} at {cut}");
            let cut = last_cut(&text[..=place]);
            assert!(place == 0 || str::from_utf8(&text[..cut]).is_ok(), "last cut before {place}");
        }
        assert_eq!(first_cut(&[0x80; 9], 9), 3, "bytes that are no text do not go on for ever");
        assert_eq!(last_cut(&[0x80; 9]), 9);
    }
}
