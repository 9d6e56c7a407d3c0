// SPDX-License-Identifier: MIT OR Apache-2.0
//! Suggestion of a known word for a mistyped one.

/// Known word that is most similar to another one; None if no word is similar enough.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|known| (strsim::damerau_levenshtein(word, known), known));
    // At most a third of the letters may be wrong.
    scored.filter(|(distance, known)| *distance * 3 <= known.len().max(3)).min().map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_the_letters_may_be_wrong() {
        let known = ["cortex-m3", "cortex-m33", "rv64"];
        assert_eq!(nearest("cortex-m33x", known.into_iter()), Some("cortex-m33"));
        assert_eq!(nearest("rv46", known.into_iter()), Some("rv64"));
        assert_eq!(nearest("xtensa", known.into_iter()), None);
    }
}
