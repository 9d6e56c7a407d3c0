// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws flamegraph and flamechart: call stacks as wide as their instructions, sorted by name or in order of time. A
//! function's widths add up to its exact number of instructions. The flamegraph of a run that knows its cycles is as wide
//! as these.
//!
//! inferno draws them, and this file works around its peculiarities. A frame's name must not contain `;` nor end in a
//! space and digits. Lines sorted as text would tear a frame apart (`f`, `f2`, `f;g`, since `2` is less than `;`), so
//! they are sorted by frames. An empty picture is an error to inferno.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;

use anyhow::{Result, bail};
use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{Direction, Options, TextTruncateDirection};

use crate::analysis::calltree::{CallTree, Path};
use crate::analysis::cycles;
use crate::analysis::functions;
use crate::analysis::heap::{self, NOT_FOLLOWED, Quantity};
use crate::analysis::stack_proof;
use crate::analysis::stacks::{Frame, FrameRole, View};
use crate::export::labels::{clean, show};
use crate::export::picture::{DARK, LETTER, MIN_WIDTH, ROOT, WIDTH, from_hsl};
use crate::profile::Profile;
use crate::text::markup::escape;
use crate::text::number::{group, plural};

/// Largest flamechart in bytes. A chart does not merge repeated stacks, and a browser is slow to show more.
const MAX_CHART_BYTES: usize = 4_500_000;

/// Units of the widths.
const INSTRUCTIONS: &str = "instructions";
const CYCLES: &str = "cycles";

const GREY: Color = Color { r: 200, g: 200, b: 200 };
const BACKGROUND: Color = Color { r: 255, g: 255, b: 255 };

/// Draws a profile as SVG.
///
/// # Errors
/// When inferno fails, which is not expected.
pub fn svg(profile: &Profile, view: View) -> Result<Vec<u8>> {
    by_part(profile, &[(None, profile)], view)
}

/// Draws the parts of a profile as one picture, each below a frame with its name.
///
/// # Errors
/// See [`svg`].
pub fn by_part(profile: &Profile, parts: &[(Option<String>, &Profile)], view: View) -> Result<Vec<u8>> {
    let cycles = cycles::total(profile);
    let total = cycles.unwrap_or_else(|| profile.total_insns());
    let least = (total as f64 * MIN_WIDTH / 100.0) as u64;
    // Sorted by shown names, so that paths that look alike become one path.
    let mut shown: BTreeMap<Stack, u64> = BTreeMap::new();
    let mut stacks: Vec<(Vec<Frame>, u64)> = Vec::new();
    let mut whole = None;
    for (name, part) in parts {
        let tree = CallTree::new(part, view);
        let tree = if cycles.is_some() { tree.in_cycles() } else { tree };
        if let ([_], None) = (parts, name) {
            let names = names(&tree);
            for (path, count) in tree.paths_of_least(least) {
                *shown.entry(stack(&tree, path, &names)).or_default() += count;
            }
            whole = Some(Heats::of_tree(&tree, &names));
            continue;
        }
        let root = name.as_ref().map(|name| Frame { name: name.clone(), role: FrameRole::Other });
        for (frames, count) in tree.stacks_of_least(least) {
            let frames: Vec<Frame> = root.iter().cloned().chain(frames).collect();
            *shown.entry(frames.iter().map(|frame| show(frame).into()).collect()).or_default() += count;
            stacks.push((frames, count));
        }
    }
    let heats = whole.unwrap_or_else(|| Heats::of_stacks(&stacks));
    draw(
        profile,
        &heats,
        shown.into_iter(),
        &clean(&profile.facts.image_name),
        subtitle(profile),
        MIN_WIDTH,
        if cycles.is_some() { CYCLES } else { INSTRUCTIONS },
    )
}

/// Shown names of a call path, outermost frame first.
type Stack = Vec<Rc<str>>;

/// Shown names of a tree's members. There are far fewer members than frames in all paths.
fn names(tree: &CallTree) -> Vec<Rc<str>> {
    tree.members.iter().map(|member| show(&member.frame).into()).collect()
}

fn stack(tree: &CallTree, path: u32, names: &[Rc<str>]) -> Stack {
    tree.members_of(path).into_iter().map(|member| names[member as usize].clone()).collect()
}

/// Draws the callers of the heap as SVG, as wide as a quantity of each call path.
///
/// # Errors
/// See [`svg`]; also when the heap was not followed.
pub fn heap(profile: &Profile, view: View, quantity: Quantity) -> Result<Vec<u8>> {
    let Some(found) = heap::replay(profile) else { bail!(NOT_FOLLOWED) };
    let tree = heap::tree(profile, &found, view, quantity);
    let names = names(&tree);
    let mut shown: BTreeMap<Stack, u64> = BTreeMap::new();
    for (path, number) in tree.paths_of_least(0) {
        *shown.entry(stack(&tree, path, &names)).or_default() += number;
    }
    let (what, unit) = match quantity {
        Quantity::Peak => ("heap at the peak", "bytes"),
        Quantity::Leaked => ("heap still held at the end", "bytes"),
        Quantity::Allocated => ("heap allocated", "bytes"),
        Quantity::Calls => ("allocations", "calls"),
    };
    let title = format!("{}: {what}", clean(&profile.facts.image_name));
    let total: u64 = shown.values().fold(0, |sum, number| sum.saturating_add(*number));
    let subtitle = clean(&format!("{} {unit} on {}", group(total), profile.facts.machine));
    draw(profile, &Heats::of_tree(&tree, &names), shown.into_iter(), &title, subtitle, MIN_WIDTH, unit)
}

/// Draws the samples of a profile in order of time, as SVG.
///
/// # Errors
/// See [`svg`].
pub fn chart(profile: &Profile, view: View) -> Result<Vec<u8>> {
    let tree = CallTree::new(profile, view);
    let kept = tree.kept(0);
    let several = profile.vcpus.len() > 1;
    let mut stacks: Vec<(Vec<Frame>, u64)> = Vec::new();
    for vcpu in 0..profile.vcpus.len() as u32 {
        let mut before_insns = 0;
        let mut last = None;
        let samples = profile.samples.iter().zip(&tree.samples);
        for (sample, &path) in samples.filter(|(sample, _)| sample.vcpu == vcpu) {
            let path = path.checked_sub(1).map_or(0, |index| kept[index as usize]);
            let insns = sample.at_insns.saturating_sub(before_insns);
            before_insns = sample.at_insns;
            if last.replace(path) == Some(path)
                && let Some((_, width)) = stacks.last_mut()
            {
                *width += insns;
                continue;
            }
            let mut frames: Vec<Frame> = tree.frames(path).into_iter().map(|member| member.frame.clone()).collect();
            if several {
                frames.insert(0, Frame { name: format!("vCPU {vcpu}:"), role: FrameRole::Other });
            }
            match stacks.last_mut() {
                Some((same, width)) if *same == frames => *width += insns,
                _ => stacks.push((frames, insns)),
            }
        }
    }
    let title = format!("{} in the order of time", clean(&profile.facts.image_name));
    let subtitle =
        format!("{} samples, one every {} instructions", group(profile.samples.len() as u64), period(profile));
    let insns: u64 = stacks.iter().map(|(_, insns)| insns).sum();
    let heats = Heats::of_stacks(&stacks);
    // Frames are left out until the picture fits, the narrowest first.
    let mut min_width = MIN_WIDTH;
    loop {
        let shown =
            stacks.iter().map(|(frames, insns)| (frames.iter().map(|frame| show(frame).into()).collect(), *insns));
        let mut subtitle = subtitle.clone();
        let left_out = (insns as f64 * min_width / 100.0) as u64;
        if left_out > profile.facts.period_insns {
            let _ = write!(subtitle, "; what lasts less than {} instructions is left out", group(left_out));
        }
        let subtitle = subtitle.replace(';', " \u{b7}");
        let svg = draw(profile, &heats, shown, &title, subtitle, min_width, INSTRUCTIONS)?;
        if svg.len() <= MAX_CHART_BYTES || min_width >= 1.0 {
            return Ok(svg);
        }
        min_width *= 1.5;
    }
}

/// Draws frames with their widths from left to right.
fn draw(
    profile: &Profile,
    heats: &Heats,
    shown: impl DoubleEndedIterator<Item = (Stack, u64)>,
    title: &str,
    subtitle: String,
    min_width: f64,
    unit: &str,
) -> Result<Vec<u8>> {
    if heats.0.is_empty() {
        return Ok(nothing(profile).into_bytes());
    }
    let mut palette = palette(heats);
    let mut options = Options::default();
    options.title = title.to_owned();
    options.subtitle = Some(subtitle);
    options.min_width = min_width;
    options.count_name = unit.to_owned();
    // As wide as the browser's window; 1200 pixels if scripts do not run (in an image of a page).
    options.image_width = None;
    options.font_width = LETTER;
    options.frame_height = 18;
    options.bgcolors = Some(BackgroundColor::Flat(BACKGROUND));
    options.palette_map = Some(&mut palette);
    // The root is on top, so that it is on the first screen however deep the stacks are.
    options.direction = Direction::Inverted;
    options.deterministic = true;
    options.text_truncate_direction = TextTruncateDirection::Right;
    // inferno keeps the given order, but reads it from the end.
    options.flame_chart = true;
    let lines: Vec<String> = shown.rev().map(|(frames, insns)| format!("{} {insns}", frames.join(";"))).collect();
    let mut svg = Vec::new();
    inferno::flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)?;
    Ok(furnished(&annotate(profile, &String::from_utf8(svg)?), &legend(heats, unit)).into_bytes())
}

/// Adds features that inferno has no option for: a legend in a row of its own between subtitle and frames, and a
/// visible search, whose result is shown above the frames instead of below all of them.
fn furnished(svg: &str, legend: &str) -> String {
    // Height of the row, in pixels, and vertical position of the text that inferno writes right above the frames.
    const ROW: usize = 22;
    const DETAILS_Y: usize = 64;
    let Some((head, frames)) = svg.split_once("<svg id=\"frames\"") else { return svg.to_owned() };
    let mut head = head.to_owned();
    let height = head.split_once(" height=\"").and_then(|(_, rest)| rest.split_once('"')?.0.parse::<usize>().ok());
    if let Some(height) = height {
        // The height occurs three times: of the picture, of its visible part, and of its background.
        let higher = height + ROW;
        head = head.replace(&format!("height=\"{height}\""), &format!("height=\"{higher}\""));
        head = head.replace(&format!("0 0 {WIDTH} {height}\""), &format!("0 0 {WIDTH} {higher}\""));
    }
    head = head.replacen("</style>", &format!("{FURNITURE}{DARK}</style>"), 1);
    head = at_height(&head, "details", DETAILS_Y + ROW);
    head = at_height(&head, "matched", DETAILS_Y + 4);
    let y = DETAILS_Y - 6;
    format!(
        "{head}<g id=\"legend\" transform=\"translate(10,{y})\">{legend}</g>\n<svg id=\"frames\" y=\"{ROW}\"{frames}"
    )
}

/// Moves one of inferno's texts vertically; its vertical position is its last attribute.
fn at_height(head: &str, id: &str, y: usize) -> String {
    let start = format!("<text id=\"{id}\"");
    let parts = head.split_once(&start).and_then(|(before, rest)| {
        let (attributes, text) = rest.split_once('>')?;
        Some((before, attributes.split_once(" y=")?.0, text))
    });
    match parts {
        Some((before, attributes, text)) => format!("{before}{start}{attributes} y=\"{y}\">{text}"),
        None => head.to_owned(),
    }
}

/// Style rules after inferno's own rules, which hide the search until the pointer is over it.
const FURNITURE: &str = "
#search { opacity:1; text-decoration:underline; fill:rgb(31,95,168); }
#unzoom { text-decoration:underline; fill:rgb(31,95,168); }
#subtitle, #legend text { fill:rgb(80,80,80); }
#matched { fill:rgb(160,0,160); }
";

/// Draws the legend of the colours that occur: a box and a word each, from left to right.
fn legend(heats: &Heats, unit: &str) -> String {
    let own = match unit {
        INSTRUCTIONS | CYCLES => format!("function: the warmer, the more self {unit}"),
        _ => format!("function: the warmer, the more {unit}"),
    };
    let words = [
        (FrameRole::Function, own.as_str()),
        (FrameRole::Inlined, "inlined"),
        (FrameRole::Task, "task"),
        (FrameRole::Irq, "interrupt"),
        (FrameRole::Other, "no function"),
    ];
    let (mut legend, mut x) = (String::new(), 0.0);
    for (role, word) in words.into_iter().filter(|(role, _)| heats.0.values().any(|(known, _)| known == role)) {
        let shades: &[f64] = if role == FrameRole::Function { &[0.0, 0.3, 1.0] } else { &[0.3] };
        for &heat in shades {
            let Color { r, g, b } = color("", role, heat);
            let _ = write!(
                legend,
                "<rect x=\"{x:.0}\" y=\"0\" width=\"12\" height=\"12\" rx=\"2\" fill=\"rgb({r},{g},{b})\"/>"
            );
            x += 13.0;
        }
        let _ = write!(legend, "<text x=\"{:.0}\" y=\"10\">{word}</text>", x + 3.0);
        x += 24.0 + word.len() as f64 * 12.0 * LETTER;
    }
    legend
}

/// Adds calls and place of definition to the hover texts of functions. These details go inside the parentheses, since
/// inferno's script removes the last pair of parentheses to get the name.
fn annotate(profile: &Profile, svg: &str) -> String {
    let table = functions::table(profile);
    let mut details: BTreeMap<String, Option<String>> = BTreeMap::new();
    for row in table.rows.iter().filter(|row| row.kind == functions::RowKind::Function) {
        let mut detail = format!(", {}", plural(row.calls, "call"));
        if let (Some(file), Some(line)) = (&row.file, row.line) {
            let _ = write!(detail, ", {}:{line}", clean(file).replace(['(', ')'], "_"));
        }
        // The picture does not tell functions of one name apart, so their details are dropped.
        details.entry(clean(&row.name)).and_modify(|detail| *detail = None).or_insert(Some(escape(&detail)));
    }
    let mut parts = svg.split("<title>");
    let mut annotated = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        annotated.push_str("<title>");
        let detail = part.split_once("</title>").and_then(|(title, rest)| {
            let name = unescape(title.rsplit_once(" (")?.0);
            let detail = details.get(&*name)?.as_ref()?;
            Some((title.strip_suffix(')')?, detail, rest))
        });
        match detail {
            Some((title, detail, rest)) => {
                let _ = write!(annotated, "{title}{detail})</title>{rest}");
            }
            None => annotated.push_str(part),
        }
    }
    annotated
}

fn unescape(text: &str) -> Cow<'_, str> {
    // Most names have nothing to unescape.
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    Cow::Owned(text.replace("&#39;", "'").replace("&amp;", "&"))
}

fn period(profile: &Profile) -> String {
    let period = group(profile.facts.period_insns);
    if profile.facts.jitter_seed.is_some() { format!("{period} (dithered)") } else { period }
}

/// Role of each frame by its shown name, with its own instructions.
#[derive(Default)]
struct Heats(BTreeMap<String, (FrameRole, u64)>);

impl Heats {
    fn of_stacks(stacks: &[(Vec<Frame>, u64)]) -> Heats {
        let mut heats = Heats::default();
        for (frames, insns) in stacks {
            frames.iter().for_each(|frame| heats.add(frame, &show(frame), 0));
            let counted = innermost(frames.iter().rev().map(|frame| (frame, frame)));
            counted.into_iter().for_each(|frame| heats.add(frame, &show(frame), *insns));
        }
        heats
    }

    /// Heats of a tree; `names` are those of [`names`].
    fn of_tree(tree: &CallTree, names: &[Rc<str>]) -> Heats {
        let mut heats = Heats::default();
        let inclusive_insns = tree.inclusive_insns();
        let frame = |member: u32| &tree.members[member as usize].frame;
        for (path, _) in tree.paths.iter().zip(inclusive_insns).filter(|&(_, insns)| insns > 0) {
            heats.add(frame(path.member), &names[path.member as usize], 0);
            if path.insns > 0 {
                let outer = |path: &&Path| tree.paths.get(path.parent.checked_sub(1)? as usize);
                let inner = std::iter::successors(Some(path), outer).map(|path| (path.member, frame(path.member)));
                for member in innermost(inner) {
                    heats.add(frame(member), &names[member as usize], path.insns);
                }
            }
        }
        heats
    }

    fn add(&mut self, frame: &Frame, name: &str, insns: u64) {
        match self.0.get_mut(name) {
            Some((_, sum)) => *sum += insns,
            None => drop(self.0.insert(name.to_owned(), (frame.role, insns))),
        }
    }
}

/// The last function and the frames inlined into it, each once, with what stands for them. `inner` has the frames from
/// the innermost outwards. A function inlined into itself counts once.
fn innermost<'a, T>(inner: impl Iterator<Item = (T, &'a Frame)>) -> Vec<T> {
    let (mut known, mut counted): (Vec<&Frame>, Vec<T>) = (Vec::new(), Vec::new());
    for (stands, frame) in inner {
        if !known.contains(&frame) {
            known.push(frame);
            counted.push(stands);
        }
        if frame.role != FrameRole::Inlined {
            break;
        }
    }
    counted
}

/// Colours of frames, by name. A function is the warmer, the more instructions it executes itself; inlined frames are
/// green, tasks blue, interrupts purple, frames without a name grey. The name's hash changes each colour a little, to
/// tell neighbours apart; a name has the same hash in every picture.
fn palette(Heats(insns): &Heats) -> PaletteMap {
    let hottest = insns.values().map(|&(_, insns)| insns).max().unwrap_or(1).max(1) as f64;
    let mut palette = PaletteMap::default();
    // The root has no name.
    palette.insert("", ROOT);
    for (frame, &(role, insns)) in insns {
        palette.insert(frame, color(frame, role, insns as f64 / hottest));
    }
    palette
}

fn color(frame: &str, role: FrameRole, heat: f64) -> Color {
    // FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/).
    let hash = frame
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    // The last letters of a name reach only FNV's lowest bits well, so the hash is mixed as at the end of MurmurHash3.
    let hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let dither = (hash >> 40) as f64 / f64::from(1 << 24) - 0.5;
    // Most functions are far below the hottest one; the square root spreads them out.
    let heat = heat.sqrt();
    let (hue, saturation, lightness) = match role {
        FrameRole::Other => return GREY,
        FrameRole::Task => (214.0 + 44.0 * dither, 0.54, 0.74 + 0.12 * dither),
        FrameRole::Irq => (285.0 + 24.0 * dither, 0.45, 0.76 + 0.05 * dither),
        FrameRole::Inlined => (150.0 + 40.0 * dither, 0.30 + 0.15 * heat, 0.80 - 0.10 * heat),
        FrameRole::Function => (
            48.0 - 34.0 * heat + 10.0 * dither,
            0.62 + 0.30 * heat,
            0.80 - 0.18 * heat + 0.07 * dither * (1.0 - heat),
        ),
    };
    from_hsl(hue, saturation, lightness)
}

fn subtitle(profile: &Profile) -> String {
    let facts = &profile.facts;
    let cycles = |cycles| format!("{} cycles{}, ", group(cycles), cycles::in_brackets(profile));
    let cycles = cycles::total(profile).map_or_else(String::new, cycles);
    let mut subtitle = format!("{cycles}{} instructions on {}", group(profile.total_insns()), facts.machine);
    if let Some(cpu) = &facts.cpu {
        let _ = write!(subtitle, ", {cpu}");
    }
    let _ = write!(subtitle, " (QEMU {})", facts.qemu_version);
    if let Some(function) = &facts.window.from {
        let _ = write!(subtitle, ", from {function}");
    }
    if let Some(function) = &facts.window.until {
        let _ = write!(subtitle, ", until {function}");
    }
    let stacks = match (profile.tree.is_empty(), facts.max_depth) {
        (false, _) if stack_proof::has_exact_tree(profile) => "exact call tree".to_owned(),
        (false, _) => "call tree, NOT exact".to_owned(),
        (true, Some(_)) => format!("stacks sampled every {} instructions", period(profile)),
        (true, None) => "no stacks".to_owned(),
    };
    let widths = match cycles::interval(profile) {
        Some(_) => "widths: most likely",
        None => "a function's widths add up to its exact count",
    };
    clean(&format!("{subtitle}; {stacks}; {widths}").replace(';', " \u{b7}"))
}

/// Draws a picture for a profile without stacks: a sentence with the reason.
fn nothing(profile: &Profile) -> String {
    let title = escape(&clean(&profile.facts.image_name));
    let why = match profile.total_insns() {
        0 => "No instruction was executed in the measuring window.",
        _ => "No sample was taken: the measuring window is shorter than the distance of samples.",
    };
    format!(
        "<?xml version=\"1.0\" standalone=\"no\"?>\n\
         <svg version=\"1.1\" width=\"{WIDTH}\" height=\"100\" viewBox=\"0 0 {WIDTH} 100\" \
         xmlns=\"http://www.w3.org/2000/svg\">\n\
         <style type=\"text/css\">{DARK}</style>\n\
         <rect id=\"backdrop\" width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <g font-family=\"monospace\" text-anchor=\"middle\">\n\
         <text x=\"600\" y=\"34\" font-size=\"17\">{title}</text>\n\
         <text x=\"600\" y=\"68\" font-size=\"12\">{why}</text>\n\
         </g>\n\
         </svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::picture::contrast::contrast;
    use crate::profile::testing::{empty, freertos};

    fn drawn(profile: &Profile) -> String {
        String::from_utf8(svg(profile, View::default()).unwrap()).unwrap()
    }

    /// Hover texts, which have the exact numbers.
    fn titles(svg: &str) -> Vec<String> {
        let texts = svg.split("<title>").skip(1).map(|text| text.split("</title>").next().unwrap());
        texts.map(|text| text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).collect()
    }

    #[test]
    fn widths_are_exact_counts_of_functions_and_what_is_inlined() {
        let profile = empty()
            .function("main", 0x40, 8)
            .function("other", 0x48, 8)
            .insn(0x40, 1000)
            .insn(0x42, 500)
            .insn(0x48, 1)
            .frames(0x40, &["main", "mix", "rotate"])
            .frames(0x42, &["main", "mix"]);
        let titles = titles(&drawn(&profile));
        for expected in [
            "all (1,501 instructions, 100%)",
            "main (1,500 instructions, 99.93%, 1,000 calls, src/blinky.c:7)",
            "mix (inlined) (1,500 instructions, 99.93%)",
            "rotate (inlined) (1,000 instructions, 66.62%)",
            "other (1 instructions, 0.07%, 1 call, src/blinky.c:7)",
        ] {
            assert!(titles.iter().any(|title| title == expected), "{expected} not in {titles:#?}");
        }
        assert_eq!(titles.len(), 5, "{titles:#?}");
    }

    fn charted(profile: &Profile) -> String {
        String::from_utf8(chart(profile, View::default()).unwrap()).unwrap()
    }

    /// Number of frames of each name, and the sum of their widths.
    fn frames(svg: &str) -> BTreeMap<String, (u64, u64)> {
        let mut frames: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for title in titles(svg) {
            let (name, numbers) = title.rsplit_once(" (").unwrap();
            let insns: u64 = numbers.split_once(" instructions").unwrap().0.replace(',', "").parse().unwrap();
            let (count, sum) = frames.entry(name.to_owned()).or_default();
            (*count, *sum) = (*count + 1, *sum + insns);
        }
        frames
    }

    #[test]
    fn widths_under_all_callers_add_up_to_exact_counts() {
        let profile = freertos();
        let frames = frames(&drawn(&profile));
        for (name, expected) in [
            ("all", (1, 579_200)),
            ("task sensor", (1, 268_000)),
            ("task sensor (2)", (1, 80_000)),
            ("[no task]", (1, 7_000)),
            ("multiply_accumulate", (2, 250_000)),
            // 25,000 instructions of its own and 11,000 of interrupts during it.
            ("saturate (inlined)", (1, 36_000)),
            ("memcpy", (3, 50_000)),
            // Includes 3,067 of UART0's 9,200 instructions, whose samples are divided 600 to 300.
            ("[irq SysTick]", (2, 31_067)),
            ("[irq UART0]", (2, 9_200)),
            ("[no unwind info]", (1, 2_000)),
        ] {
            assert_eq!(frames.get(name), Some(&expected), "{name} in {frames:#?}");
        }
    }

    #[test]
    fn only_functions_have_calls_and_a_place() {
        for title in titles(&drawn(&freertos())) {
            let is_function = !title.contains("inlined") && !title.starts_with(['[']) && !title.starts_with("task ");
            let expected = is_function && !title.starts_with("all ");
            assert_eq!(title.contains("call"), expected, "{title}");
            assert_eq!(title.ends_with("src/blinky.c:7)"), expected, "{title}");
        }
    }

    #[test]
    fn siblings_are_sorted_by_name() {
        let titles = titles(&drawn(&freertos()));
        let tasks: Vec<_> = titles.iter().filter(|title| title.starts_with("task ")).collect();
        assert_eq!(tasks.len(), 4, "{titles:#?}");
        assert!(tasks.is_sorted_by_key(|title| title.split_once(" (").unwrap().0), "{tasks:#?}");
    }

    #[test]
    fn the_legend_has_the_colours_that_occur_and_the_search_can_be_seen() {
        let svg = drawn(&freertos());
        let legend = svg.split_once("<g id=\"legend\"").unwrap().1.split_once("</g>").unwrap().0;
        let words = |legend: &str| -> Vec<String> {
            let words = legend.split("</text>").filter_map(|part| Some(part.rsplit_once('>')?.1.to_owned()));
            words.filter(|word| !word.is_empty()).collect()
        };
        let all = ["function: the warmer, the more self instructions", "inlined", "task", "interrupt", "no function"];
        assert_eq!(words(legend), all);
        let plain = drawn(&empty().function("main", 0x40, 4).insn(0x40, 3));
        assert_eq!(words(plain.split_once("<g id=\"legend\"").unwrap().1.split_once("</g>").unwrap().0), all[..1]);
        // The picture is higher by as much as the frames move down.
        let height =
            |svg: &str| svg.split_once(" height=\"").unwrap().1.split_once('"').unwrap().0.parse::<usize>().unwrap();
        let bottom = svg
            .split("<rect x=")
            .filter_map(|rect| rect.split_once(" y=\"")?.1.split_once('"')?.0.parse::<usize>().ok());
        assert_eq!(height(&svg), 22 + bottom.max().unwrap() + 18 + 22);
        assert!(svg.contains("<svg id=\"frames\" y=\"22\"") && svg.contains("viewBox=\"0 0 1200 "), "{svg}");
        let line =
            |id: &str| svg.split_once(&format!("id=\"{id}\"")).unwrap().1.split_once('>').unwrap().0.to_owned();
        assert!(line("details").contains("y=\"86\"") && line("matched").contains("y=\"68\""), "{svg}");
        // The last rule wins over inferno's own.
        let rules: Vec<&str> = svg.split("#search {").skip(1).map(|rule| rule.split_once('}').unwrap().0).collect();
        assert!(rules.last().unwrap().contains("opacity:1;"), "{rules:?}");
        assert!(svg.contains("fluiddrawing = true"));
    }

    #[test]
    fn the_subtitle_says_where_the_stacks_come_from() {
        use wire::definition::NodeKind;
        let mut profile = freertos();
        assert!(drawn(&profile).contains("stacks sampled every 10 instructions"));
        profile.facts.jitter_seed = Some(1);
        assert!(drawn(&profile).contains("stacks sampled every 10 (dithered) instructions"));
        profile.facts.max_depth = None;
        assert!(drawn(&profile).contains("no stacks"));
        assert!(drawn(&profile.node(0, NodeKind::Root { task: 0 }, 1)).contains("exact call tree"));
    }

    #[test]
    fn the_chart_keeps_the_order_of_time_and_merges_what_lasts() {
        let profile = empty()
            .function("zeta", 0x40, 0x10)
            .function("alpha", 0x50, 0x10)
            .caller(0, 0x44)
            .taken(3, 0x42, 0, 0)
            .taken(2, 0x52, 1, 0)
            .taken(1, 0x48, 0, 0)
            .taken(4, 0x52, 0, 0)
            .taken(1, 0x42, 0, 0);
        let svg = charted(&profile);
        assert!(!svg.contains("is left out"));
        let frames = frames(&svg);
        assert_eq!(frames["all"], (1, 110));
        // One column before the call, and another one after `alpha`.
        assert_eq!(frames["zeta"], (2, 70));
        assert_eq!(frames["alpha"], (2, 60));
        let mut placed: Vec<(f64, String)> = svg
            .split("<title>")
            .skip(1)
            .map(|part| {
                let x = part.split("x=\"").nth(1).unwrap().split(['"', '%']).next().unwrap();
                (x.parse().unwrap(), part.split(" (").next().unwrap().to_owned())
            })
            .filter(|(_, name)| name != "all")
            .collect();
        placed.sort_by(|one, other| one.0.total_cmp(&other.0));
        let names: Vec<_> = placed.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["zeta", "alpha", "alpha", "zeta"]);
    }

    #[test]
    fn the_chart_shows_each_vcpu_by_its_own_clock() {
        let mut profile = empty().function("main", 0x40, 4).function("other", 0x44, 4).taken(6, 0x40, 0, 0);
        profile.vcpus.push(profile.vcpus[0].clone());
        // The vCPUs take turns, the second one at half the speed.
        for (index, sample) in (0..).zip(&mut profile.samples) {
            sample.vcpu = index % 2;
            sample.at_insns = 10 * (u64::from(index) / 2 + 1) * u64::from(2 - sample.vcpu);
            sample.pc += 4 * u64::from(sample.vcpu);
        }
        let frames = frames(&charted(&profile));
        let expected =
            [("all", (1, 90)), ("vCPU 0:", (1, 60)), ("main", (1, 60)), ("vCPU 1:", (1, 30)), ("other", (1, 30))];
        assert_eq!(frames, expected.map(|(name, widths)| (name.to_owned(), widths)).into());
    }

    #[test]
    fn the_chart_of_many_samples_stays_small() {
        let mut profile = empty();
        for index in 0..64 {
            let start = 0x1000 + 0x10 * index;
            profile = profile.function(&format!("a_function_with_a_name_{index}"), start, 0x10);
        }
        // 64 stacks of depth 10 with nothing but the first two frames in common.
        let mut innermost = Vec::new();
        profile = profile.caller(0, 0x1004).caller(1, 0x1014);
        for stack in 0..64 {
            let mut parent = 2;
            for depth in 0..7 {
                profile = profile.caller(parent, 0x1004 + 0x10 * ((stack * 7 + depth * 11) % 64));
                parent = profile.stacks.len() as u32;
            }
            innermost.push(parent);
        }
        // Each sample is a column that is just wide enough to be drawn, or just too narrow.
        for count in [9_900, 20_000] {
            profile.samples.clear();
            for index in 0..count {
                profile = profile.taken(1, 0x1004 + 0x10 * (index % 61), innermost[index as usize * 37 % 64], 0);
            }
            let svg = charted(&profile);
            assert!(svg.len() < 5_000_000, "{count}: {} bytes", svg.len());
            assert_eq!(frames(&svg)["all"], (1, 10 * count));
            assert!(svg.contains("is left out"));
        }
    }

    #[test]
    fn a_chart_without_samples_does_not_say_that_nothing_ran() {
        let svg = charted(&empty().function("main", 0x40, 4).insn(0x40, 3));
        assert!(svg.contains("No sample was taken") && !svg.contains("No instruction"), "{svg}");
    }

    #[test]
    fn nothing_is_drawn_as_a_picture_that_says_so() {
        let svg = drawn(&empty());
        assert!(svg.contains("No instruction was executed") && svg.contains("blinky.elf"), "{svg}");
        assert!(!svg.contains("ERROR"), "{svg}");
    }

    #[test]
    fn names_that_are_syntax_to_inferno_stay_whole() {
        let long = "x".repeat(1000);
        let names = [
            ("f::<[u8; 8]>", "f::<[u8: 8]>"),
            ("operator 12", "operator_12"),
            ("operator 1.5", "operator_1.5"),
            ("# not a comment", "?# not a comment"),
            ("größe::寸法", "größe::寸法"),
            ("a\u{1}\nb", "a??b"),
            ("", "?"),
            ("-", "?-"),
            ("<&'a>\"", "<&'a>\""),
            (" spaces ", "spaces"),
            (long.as_str(), long.as_str()),
        ];
        let mut profile = empty();
        for (at, (name, _)) in (0x40_u64..).step_by(4).zip(names) {
            profile = profile.function(name, at, 4).insn(at, 10).insn(at + 2, 1).frames(at + 2, &[name, name]);
        }
        let svg = drawn(&profile);
        let titles: Vec<String> =
            titles(&svg).iter().map(|title| title.replace("&quot;", "\"").replace("&apos;", "'")).collect();
        for (_, shown) in names {
            let count =
                titles.iter().filter(|title| title.starts_with(&format!("{shown} (11 instructions, "))).count();
            assert_eq!(count, 1, "{shown}: {titles:#?}");
        }
        assert!(titles.iter().any(|title| title.starts_with("all (121 instructions")));
        assert!(!svg.contains('\u{1}'));
    }

    #[test]
    fn a_function_is_one_frame_whatever_its_neighbours_are_called() {
        // As text, `f 5`, `f2 3` and `f;g 2` sort in this order.
        let profile = empty()
            .function("f", 0x40, 4)
            .function("f2", 0x44, 4)
            .function("f.part.0", 0x48, 4)
            .function("f (1)", 0x4c, 4)
            .insn(0x40, 5)
            .insn(0x42, 2)
            .insn(0x44, 3)
            .insn(0x48, 3)
            .insn(0x4c, 3)
            .frames(0x42, &["f", "g"]);
        let titles = titles(&drawn(&profile));
        let of_f: Vec<_> =
            titles.iter().filter(|title| title.starts_with("f (") && !title.starts_with("f (1)")).collect();
        assert_eq!(of_f, ["f (7 instructions, 43.75%, 5 calls, src/blinky.c:7)"], "{titles:#?}");
    }

    #[test]
    fn the_same_profile_gives_the_same_bytes() {
        let mut profile = empty();
        for at in (0x40..0x400).step_by(4) {
            profile = profile.function(&format!("function{at}"), at, 4).insn(at, at);
        }
        assert_eq!(svg(&profile, View::default()).unwrap(), svg(&profile, View::default()).unwrap());
    }

    #[test]
    fn what_has_no_name_is_grey_and_the_hottest_is_the_warmest() {
        assert_eq!(color("[boot rom]", FrameRole::Other, 1.0), GREY);
        let (hot, cold) = (color("main", FrameRole::Function, 1.0), color("main", FrameRole::Function, 0.01));
        assert!(hot.r > 230 && hot.g < 130, "{hot:?}");
        assert!(cold.g > 180, "{cold:?}");
    }

    #[test]
    fn names_on_frames_have_contrast_in_both_schemes() {
        let black = Color { r: 0, g: 0, b: 0 };
        let roles = [FrameRole::Function, FrameRole::Inlined, FrameRole::Task, FrameRole::Irq, FrameRole::Other];
        for number in 0..500 {
            for (role, heat) in roles.into_iter().flat_map(|role| [0.0, 0.3, 1.0].map(|heat| (role, heat))) {
                let frame = color(&format!("f{number}"), role, heat);
                let contrast = contrast(black, frame);
                assert!(contrast >= 4.5, "{role:?} {frame:?}: {contrast:.2}");
            }
        }
    }

    #[test]
    fn tasks_are_blue_interrupts_purple_and_inlined_functions_green() {
        for name in ["a", "sensor", "logger", "IDLE", "[irq UART0]"] {
            let [task, irq, inlined] =
                [FrameRole::Task, FrameRole::Irq, FrameRole::Inlined].map(|role| color(name, role, 0.0));
            assert!(task.b > task.g && task.g > task.r, "{task:?}");
            assert!(irq.b > irq.r && irq.r > irq.g, "{irq:?}");
            assert!(inlined.g > inlined.r && inlined.g > inlined.b, "{inlined:?}");
        }
    }

    #[test]
    fn a_function_is_warm_by_what_it_executes_itself() {
        let profile = freertos();
        let stacks: Vec<_> = CallTree::new(&profile, View::default()).stacks().into_iter().collect();
        let palette = palette(&Heats::of_stacks(&stacks));
        let green = |name: &str| palette.get(name).unwrap().g;
        // Nearly all instructions are executed below `sensor_task`, hardly any in it.
        assert!(green("multiply_accumulate") < green("filter"));
        assert!(green("filter") < green("sensor_task"));
    }
}
