// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions whose calls are zones: those of `--zone-call`, and the functions in which ztest runs a test case.
//!
//!     RULE = NAME [ "(" TEXT { "," TEXT } ")" ]
//!     TEXT = WHERE { "->" STEP }
//!     WHERE = "arg0" | "arg1" | … | a register's name
//!     STEP = STRUCTURE "." MEMBER | a number of bytes
//!
//! A text is the address of a C string. Each step reads a pointer at an offset from the address before it. Without
//! texts, a call has the name of its function.

use decode::Isa;
use wire::zone::{Call, CallText, MAX_STEPS, MAX_TEXTS};

use crate::error::InputError;
use crate::image::argument::{Where, Word, Words, end_of_name};
use crate::image::kernel::member_offset;
use crate::image::symbols::Symbols;
use crate::image::zone::Zones;

/// Option that adds a rule.
pub const OPTION: &str = "--zone-call";

/// Rules for Zephyr's ztest, of which the first that fits is taken: the function that the thread of a test case begins
/// with, and the one that runs a case without threads. The first of each pair is that of Zephyr 3.2 and later, the
/// second that of `ztest_test_suite` before.
const ZTEST: [&str; 4] = [
    "test_cb(arg1->ztest_unit_test.test_suite_name, arg1->ztest_unit_test.name)",
    "test_cb(arg0->unit_test.name)",
    "run_test(arg1->ztest_unit_test.test_suite_name, arg1->ztest_unit_test.name)",
    "run_test(arg0->unit_test.name)",
];

/// Files of ztest that have such functions. Tests may have functions of the same names.
const ZTEST_FILES: [&str; 2] = ["ztest.c", "ztest_new.c"];

/// Function whose calls are zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Rule as typed.
    text: String,
    /// Name of the function, in a form that [`Symbols::find`] accepts.
    name: String,
    texts: Vec<Text>,
}

/// Text of a call's name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Text {
    place: Word,
    steps: Vec<Step>,
}

/// Offset of a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Bytes(u64),
    Member { structure: String, member: String, at: usize },
}

/// ELF with the debug information in which members are looked up.
#[derive(Clone, Copy, Debug)]
pub struct Elf<'a> {
    /// Bytes of the file, if there is one.
    pub bytes: Option<&'a [u8]>,
    /// Added to its addresses.
    pub load_bias: u64,
    /// Instruction set of its code.
    pub isa: Isa,
}

impl Elf<'_> {
    /// Offset of a structure's member.
    fn offset(&self, structure: &str, member: &str) -> Option<u64> {
        member_offset(self.bytes, self.load_bias, self.isa.is_thumb(), (structure, member))
    }
}

impl Rule {
    /// Reads a rule.
    ///
    /// # Errors
    /// [`InputError`], with the column of the mistake.
    pub fn parse(text: &str) -> Result<Rule, InputError> {
        let end = end_of_name(text);
        let name = text[..end].trim().to_owned();
        let mut words = Words { option: OPTION, text, at: end };
        if name.is_empty() {
            return Err(words.error(0, "no function; write it as 'run_test(arg0)', where arg0 points to the name"));
        }
        let mut texts = Vec::new();
        if words.take("(") && !words.take(")") {
            loop {
                texts.push(Text::parse(&mut words)?);
                if words.take(")") {
                    break;
                }
                if !words.take(",") {
                    return Err(words.error(words.at, "a `,` or the closing `)` is missing here"));
                }
            }
        }
        words.skip_space();
        if words.at < text.len() {
            return Err(words.error(words.at, "nothing may follow here"));
        }
        if texts.len() > MAX_TEXTS {
            return Err(words.error(end, format_args!("at most {MAX_TEXTS} texts make a name")));
        }
        Ok(Rule { text: text.to_owned(), name, texts })
    }

    /// Texts of the calls, as the plugin reads them.
    fn texts(&self, elf: Elf<'_>) -> Result<Vec<CallText>, InputError> {
        let words = Words { option: OPTION, text: &self.text, at: 0 };
        let text = |text: &Text| {
            let offset = |step: &Step| match step {
                Step::Bytes(bytes) => Ok(*bytes),
                Step::Member { structure, member, at } => elf.offset(structure, member).ok_or_else(|| {
                    let what = format!(
                        "the debug information has no structure `{structure}` with a member `{member}`; write the \
                         member's offset in bytes instead, as in arg0->4"
                    );
                    words.error(*at, what)
                }),
            };
            let offsets = text.steps.iter().map(offset).collect::<Result<_, _>>()?;
            Ok(CallText { register: words.register(&text.place, elf.isa)?, offsets })
        };
        self.texts.iter().map(text).collect()
    }
}

impl Text {
    fn parse(words: &mut Words<'_>) -> Result<Text, InputError> {
        let place = words.place()?;
        if matches!(place.what, Where::Number(_)) {
            return Err(words.error(place.at, "a text is where a register points, such as arg0"));
        }
        let mut steps = Vec::new();
        while words.take("->") {
            let (word, at) = words.word();
            let what = "write a member here, such as unit_test.name, or its offset in bytes";
            let step = if words.take(".") {
                let (member, _) = words.word();
                let is_whole = !word.is_empty() && !member.is_empty();
                is_whole.then(|| Step::Member { structure: word.to_owned(), member: member.to_owned(), at })
            } else {
                crate::text::number::parse_number("offset", word).ok().map(Step::Bytes)
            };
            steps.push(step.ok_or_else(|| words.error(at, what))?);
        }
        if steps.len() > MAX_STEPS {
            return Err(words.error(place.at, format_args!("at most {MAX_STEPS} pointers lead to a text")));
        }
        Ok(Text { place, steps })
    }
}

/// Adds to an image's zones the calls that rules name, and those of ztest's test cases.
///
/// # Errors
/// When a rule names no function, or a member that the image does not have.
pub fn add(rules: &[Rule], symbols: &Symbols<'_>, elf: Elf<'_>, zones: &mut Zones) -> Result<(), InputError> {
    let mut found: Vec<(u64, String, Vec<CallText>)> = Vec::new();
    for rule in rules {
        let functions = symbols.find(&rule.name).map_err(|error| InputError::new(format!("{OPTION}: {error}")))?;
        let texts = rule.texts(elf)?;
        for function in functions {
            if found.iter().any(|(entry, ..)| *entry == function.address) {
                return Err(InputError::new(format!("{OPTION}: `{}` was named before", function.name)));
            }
            found.push((function.address, function.name, texts.clone()));
        }
    }
    if let Some(ztest) = ztest(symbols, elf).filter(|ztest| found.iter().all(|(entry, ..)| *entry != ztest.0)) {
        found.push(ztest);
    }
    found.sort_by_key(|(entry, ..)| *entry);
    if !found.is_empty() {
        zones.first_call = zones.names.len() as u32 + 1;
    }
    for (entry, function, texts) in found {
        let name = zones.names.iter().position(|name| *name == function).unwrap_or_else(|| {
            zones.names.push(function);
            zones.names.len() - 1
        });
        zones.calls.push(Call { entry, name: name as u32 + 1, texts });
    }
    Ok(())
}

/// The function in which ztest runs a test case. None: the image has no ztest.
fn ztest(symbols: &Symbols<'_>, elf: Elf<'_>) -> Option<(u64, String, Vec<CallText>)> {
    ZTEST.iter().find_map(|text| {
        let rule = Rule::parse(text).ok()?;
        if !symbols.entries().any(|(name, _)| name.split('.').next() == Some(&rule.name)) {
            return None;
        }
        let in_files = ZTEST_FILES.iter().map(|file| format!("{} ({file})", rule.name));
        let mut functions = in_files.chain([rule.name.clone()]).filter_map(|name| symbols.find(&name).ok()).flatten();
        let texts = rule.texts(elf).ok()?;
        functions.next().map(|function| (function.address, function.name, texts))
    })
}
