// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters of the cases to run: `-f 'tag(rtos) and not name(slow)'`, or just a part of the name.

use globset::Glob;

use crate::error::InputError;
use crate::gate::suite::Case;

/// A filter of cases.
#[derive(Clone, Debug)]
pub struct Filter(Expression);

#[derive(Clone, Debug)]
enum Expression {
    /// Matches names that contain this text.
    Contains(String),
    Name(globset::GlobMatcher),
    Tag(globset::GlobMatcher),
    Not(Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// [`InputError`] with what was expected.
    pub fn parse(text: &str) -> Result<Filter, InputError> {
        // A text without syntax is a part of a name.
        if !text.contains(['(', ')', '!', '&', '|']) && !text.trim().contains(char::is_whitespace) {
            return Ok(Filter(Expression::Contains(text.trim().to_owned())));
        }
        let mut parser = Parser { rest: text };
        let expression = parser.or().and_then(|expression| {
            parser.rest = parser.rest.trim_start();
            if parser.rest.is_empty() { Ok(expression) } else { Err(format!("{:?} is left over", parser.rest)) }
        });
        expression.map(Filter).map_err(|what| {
            InputError::new(format!(
                "filter {text:?}: {what}; write tag(x), name(glob*), and, or, not, ( ), or a part of a name"
            ))
        })
    }

    /// Cases of a suite that match any of the filters; without filters, all cases.
    pub fn choose<'a>(filters: &[Filter], cases: &'a [Case]) -> Vec<&'a Case> {
        let is_meant = |case: &&Case| filters.iter().any(|filter| filter.matches(&case.name, &case.tags));
        cases.iter().filter(|case| filters.is_empty() || is_meant(case)).collect()
    }

    /// Whether a case matches.
    pub fn matches(&self, name: &str, tags: &[String]) -> bool {
        self.0.matches(name, tags)
    }
}

impl Expression {
    fn matches(&self, name: &str, tags: &[String]) -> bool {
        match self {
            Expression::Contains(part) => name.contains(part.as_str()),
            Expression::Name(glob) => glob.is_match(name),
            Expression::Tag(glob) => tags.iter().any(|tag| glob.is_match(tag)),
            Expression::Not(not) => !not.matches(name, tags),
            Expression::And(one, other) => one.matches(name, tags) && other.matches(name, tags),
            Expression::Or(one, other) => one.matches(name, tags) || other.matches(name, tags),
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn take(&mut self, words: &[&str]) -> bool {
        self.rest = self.rest.trim_start();
        for word in words {
            let is_word = word.ends_with(char::is_alphabetic);
            if let Some(rest) = self.rest.strip_prefix(word)
                && !(is_word && rest.starts_with(|c: char| c.is_alphanumeric()))
            {
                self.rest = rest;
                return true;
            }
        }
        false
    }

    fn or(&mut self) -> Result<Expression, String> {
        let mut expression = self.and()?;
        while self.take(&["or", "|", "+"]) {
            expression = Expression::Or(Box::new(expression), Box::new(self.and()?));
        }
        Ok(expression)
    }

    fn and(&mut self) -> Result<Expression, String> {
        let mut expression = self.one()?;
        while self.take(&["and", "&"]) {
            expression = Expression::And(Box::new(expression), Box::new(self.one()?));
        }
        Ok(expression)
    }

    fn one(&mut self) -> Result<Expression, String> {
        if self.take(&["not", "!"]) {
            return Ok(Expression::Not(Box::new(self.one()?)));
        }
        if self.take(&["("]) {
            let inside = self.or()?;
            return if self.take(&[")"]) { Ok(inside) } else { Err("a ) is missing".to_owned()) };
        }
        let make: fn(globset::GlobMatcher) -> Expression = if self.take(&["tag("]) {
            Expression::Tag
        } else if self.take(&["name("]) {
            Expression::Name
        } else {
            return Err(format!("tag( or name( was expected before {:?}", self.rest));
        };
        let (pattern, rest) = self.rest.split_once(')').ok_or("a ) is missing")?;
        self.rest = rest;
        let glob = Glob::new(pattern.trim()).map_err(|error| error.kind().to_string())?;
        Ok(make(glob.compile_matcher()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_choose_by_name_and_tag() {
        let chosen = |text: &str| {
            let filter = Filter::parse(text).unwrap();
            let cases: [(&str, &[&str]); 3] = [("freertos", &["rtos", "slow"]), ("bare", &[]), ("tasks", &["rtos"])];
            let cases = cases.into_iter().filter(|(name, tags)| {
                filter.matches(name, &tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>())
            });
            cases.map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(chosen("are"), ["bare"]);
        assert_eq!(chosen("tag(rtos)"), ["freertos", "tasks"]);
        assert_eq!(chosen("tag(rtos) and not tag(slow)"), ["tasks"]);
        assert_eq!(chosen("!tag(rtos) | name(free*)"), ["freertos", "bare"]);
        assert_eq!(chosen("not (tag(slow) or name(bare))"), ["tasks"]);
        assert_eq!(chosen("nothing"), [""; 0]);
    }

    #[test]
    fn what_cannot_be_read_says_what_was_expected() {
        for text in ["tag(", "tag(x) name(y)", "kind(x)", "(tag(x)", "not !", "tag(x))", "tag([)"] {
            let error = Filter::parse(text).unwrap_err().to_string();
            assert!(error.contains("write tag(x)"), "{error}");
        }
    }
}
