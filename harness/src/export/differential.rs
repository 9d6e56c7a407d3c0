// SPDX-License-Identifier: MIT OR Apache-2.0
//! Differential flamegraph: the stacks of the later profile above, those of the earlier one below, so that vanished
//! frames are visible, too. Widths are each profile's own. Colours show the change.
//!
//! inferno's own differential is not used: it is one panel in the widths of one side, coloured by name, in which
//! vanished frames have no width. So the picture is drawn here, in the look of the other pictures. Both panels have one
//! scale: a firmware that executes half as much is half as wide. If one panel would be too narrow to read, each has its
//! own scale, and the picture says so.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;

use anyhow::Result;
use inferno::flamegraph::color::Color;

use crate::analysis::both::{At, Both, Call, Node, Sampling};
use crate::analysis::stacks::Frame;
use crate::export::labels::{INLINED, clean};
use crate::export::picture::{DARK, LETTER, MIN_WIDTH, ROOT, WIDTH, from_hsl};
use crate::text::markup::{escape, shown};
use crate::text::number::{group, percent_change, plural};

/// Dimensions as in inferno's pictures, in pixels: margin left and right of the frames, height of a row, size of
/// letters.
const PADDING: usize = 10;
const ROW: usize = 18;
const FONT: f64 = 12.0;

/// Width of all frames together, in pixels.
const SPAN: f64 = (WIDTH - 2 * PADDING) as f64;

/// Ratio of the two sides above which each panel has a scale of its own.
const MOST_TIMES: u64 = 4;
const ONE_SCALE: &str = "Width: instructions, in one scale for both panels.";
const OWN_SCALES: &str = "Width: instructions, each panel in its own scale: the two do not compare.";

/// Legend of the sign before numbers that depend on samples, and so may differ in another run.
const BY_SAMPLES: &str = " \u{2248}: by samples.";

/// Maximum number of letters of a side's name in the picture; the whole name is in its hover text.
const MOST_LETTERS: usize = 60;

/// Fills of frames that are on one side only: stripes, which differ from plain colours at any width, and for the
/// colour-blind.
const NEW: &str = "url(#new)";
const VANISHED: &str = "url(#vanished)";

/// Profile on one side of the picture.
#[derive(Debug)]
pub struct Side {
    label: String,
    stacks: Vec<(Vec<Frame>, u64)>,
}

impl Side {
    /// Makes a side from its label and its instructions by stack, in any order:
    /// [`CallTree::stacks`](crate::analysis::calltree::CallTree::stacks).
    pub fn new(label: &str, stacks: impl IntoIterator<Item = (Vec<Frame>, u64)>) -> Side {
        Side { label: shown(label), stacks: stacks.into_iter().filter(|(_, insns)| *insns > 0).collect() }
    }

    /// Sum of all instructions.
    pub fn total_insns(&self) -> u64 {
        self.stacks.iter().fold(0, |sum, (_, insns)| sum.saturating_add(*insns))
    }
}

/// Draws both sides and their changes as one SVG. The order of the stacks does not matter.
///
/// # Errors
/// When it cannot be written.
pub fn svg(before: &Side, after: &Side, sampling: &Sampling, out: &mut dyn Write) -> Result<()> {
    let picture = Picture { nodes: tree(before, after, sampling), before, after };
    out.write_all(picture.draw().as_bytes())?;
    Ok(())
}

/// Change of a frame's instructions, which chooses its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Vanished,
    Shrank,
    Same,
    Grew,
    New,
}

impl Change {
    fn of(node: &Node) -> Change {
        let [before, after] = node.insns;
        match (before, after) {
            _ if before == after || node.is_within_error() => Change::Same,
            (_, 0) => Change::Vanished,
            (0, _) => Change::New,
            _ if before < after => Change::Grew,
            _ => Change::Shrank,
        }
    }
}

/// All frames of both sides, depth first, siblings by name. The first frame contains all others.
fn tree(before: &Side, after: &Side, sampling: &Sampling) -> Vec<Node> {
    let mut both = Both::new(sampling);
    for (at, side) in [(At::Before, before), (At::After, after)] {
        for (frames, insns) in &side.stacks {
            both.add(at, frames, *insns, clean);
        }
    }
    both.tree()
}

struct Picture<'a> {
    nodes: Vec<Node>,
    before: &'a Side,
    after: &'a Side,
}

impl Picture<'_> {
    fn draw(&self) -> String {
        let mut body = String::new();
        let mut y = 136;
        if let Some(note) = self.note() {
            let _ = writeln!(
                body,
                "<rect id=\"same\" x=\"{PADDING}\" y=\"{}\" width=\"{SPAN}\" height=\"44\"/>\n\
                 <text id=\"note\" x=\"{}\" y=\"{}\">{note}</text>",
                y - 16,
                WIDTH / 2,
                y + 12,
            );
            y += 58;
        }
        for at in [At::After, At::Before] {
            y = self.panel(at, y, &mut body) + 36;
        }
        self.head(y - 20) + &body + "</svg>\n"
    }

    /// Note for a picture without a change: nothing was executed, or all is the same.
    fn note(&self) -> Option<&'static str> {
        let is_same = |node: &Node| {
            let calls = [At::Before, At::After].map(|at| node.call(at));
            node.insns[0] == node.insns[1] && (calls[0] == calls[1] || calls.contains(&Call::None))
        };
        if self.nodes[0].insns == [0, 0] {
            Some("Nothing was executed on either side.")
        } else if self.nodes.iter().all(is_same) {
            Some("Nothing changed: every stack has the same number of instructions on both sides.")
        } else {
            None
        }
    }

    /// Whether one side would be too narrow in the scale of the other.
    fn has_own_scales(&self) -> bool {
        let [before, after] = self.nodes[0].insns;
        before.min(after) > 0 && before.max(after) / MOST_TIMES > before.min(after)
    }

    /// Instructions that a panel's whole width stands for.
    fn scale(&self, at: At) -> u64 {
        let insns = self.nodes[0].insns;
        if self.has_own_scales() { insns[at as usize] } else { insns[0].max(insns[1]) }
    }

    fn side(&self, at: At) -> &Side {
        match at {
            At::Before => self.before,
            At::After => self.after,
        }
    }

    /// Draws a panel from `top` down; returns its bottom.
    fn panel(&self, at: At, top: usize, body: &mut String) -> usize {
        let total = self.nodes[0].insns[at as usize];
        let label = &self.side(at).label;
        let _ = write!(
            body,
            "<text class=\"side\" x=\"{PADDING}\" y=\"{top}\"><title>{}</title><tspan class=\"strong\">{}: {}</tspan>\
             <tspan dx=\"12\">{} instructions",
            escape(label),
            at.name(),
            escape(&shortened(label)),
            group(total),
        );
        // The difference is written once, in the upper panel.
        if at == At::After && total != self.nodes[0].insns[0] {
            let _ = write!(body, ": {}", difference(&self.nodes[0]));
        }
        let _ = writeln!(body, "</tspan></text>\n<g class=\"panel\" data-side=\"{}\">", at.name());
        let scale = self.scale(at);
        let min_insns = total as f64 * MIN_WIDTH / 100.0;
        // Start of the next child of each open frame, in instructions.
        let mut starts = vec![0_u64];
        let mut deepest = 0;
        for (number, node) in self.nodes.iter().enumerate() {
            let insns = node.insns[at as usize];
            starts.truncate(node.depth + 1);
            let start = starts[node.depth];
            starts[node.depth] = start.saturating_add(insns);
            starts.push(start);
            if insns > 0 && insns as f64 >= min_insns {
                deepest = deepest.max(node.depth);
                self.frame(at, number, start, top + 10 + node.depth * ROW, scale, body);
            }
        }
        body.push_str("</g>\n");
        top + 10 + (deepest + 1) * ROW
    }

    fn frame(&self, at: At, number: usize, start: u64, y: usize, scale: u64, body: &mut String) {
        let node = &self.nodes[number];
        let insns = node.insns[at as usize];
        let scaled = |insns: u64| insns as f64 / scale as f64 * SPAN;
        let (x, width) = (PADDING as f64 + scaled(start), scaled(insns));
        let name = self.shown(node, at);
        let change = short_change(node);
        let _ = write!(body, "<g data-n=\"{number}\" data-e=\"{}\" data-x=\"{start}\" data-w=\"{insns}\"", node.end);
        if !change.is_empty() {
            let _ = write!(body, " data-c=\"{change}\"");
        }
        let class = match Change::of(node) {
            Change::New => " class=\"new\"",
            Change::Vanished => " class=\"vanished\"",
            _ => "",
        };
        let _ = writeln!(
            body,
            "{class}><title>{} ({})</title><rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{}\" \
             fill=\"{}\"/><text x=\"{:.2}\" y=\"{}\">{}</text></g>",
            escape(&name),
            hover(node),
            ROW - 1,
            fill(node),
            x + 3.0,
            y + 12,
            escape(&fitting(&name, &change, width)),
        );
    }

    fn shown(&self, node: &Node, at: At) -> String {
        // A frame that is absent on this side is marked as on the other side.
        let at = if node.call(at) == Call::None { at.other() } else { at };
        node.name.clone() + if node.call(at) == Call::Inlined { INLINED } else { "" }
    }

    /// Draws the head of the picture, above the panels: title, legend, and data for the script.
    fn head(&self, height: usize) -> String {
        let title = format!("{} \u{2192} {}", shortened(&self.before.label), shortened(&self.after.label));
        let middle = WIDTH / 2;
        let right = WIDTH - PADDING;
        let mut head = format!(
            "<?xml version=\"1.0\" standalone=\"no\"?>\n\
             <svg version=\"1.1\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
             xmlns=\"http://www.w3.org/2000/svg\">\n\
             <defs>\n{}{}</defs>\n\
             <style type=\"text/css\">{STYLE}{DARK}</style>\n\
             <script type=\"text/ecmascript\"><![CDATA[\n\
             const padding = {PADDING}, span = {SPAN}, letter = {:.2}, most_times = {MOST_TIMES};\n\
             const one_scale = \"{ONE_SCALE}\", own_scales = \"{OWN_SCALES}\";\n{SCRIPT}]]></script>\n\
             <rect id=\"backdrop\" width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text id=\"title\" x=\"{middle}\" y=\"24\">{}</text>\n\
             <text id=\"unzoom\" x=\"{PADDING}\" y=\"24\" class=\"hide\">Reset Zoom</text>\n\
             <text id=\"search\" x=\"{right}\" y=\"24\">Search</text>\n\
             <text id=\"matched\" x=\"{right}\" y=\"112\"> </text>\n\
             <text id=\"details\" x=\"{PADDING}\" y=\"112\"> </text>\n",
            stripes("new", 1.0),
            stripes("vanished", -1.0),
            LETTER * FONT,
            escape(&title),
        );
        self.legend(&mut head);
        head
    }

    /// Draws the legend: one box per colour, from vanished to new, with the number of frames.
    fn legend(&self, head: &mut String) {
        let mut counts: BTreeMap<Change, u64> = BTreeMap::new();
        for node in &self.nodes[1..] {
            *counts.entry(Change::of(node)).or_default() += 1;
        }
        let boxes: [(Change, &str, &[[u64; 2]]); 5] = [
            (Change::Vanished, "vanished", &[[1, 0]]),
            (Change::Shrank, "shrank", &[[100, 5], [100, 50], [100, 90]]),
            (Change::Same, "same", &[[1, 1]]),
            (Change::Grew, "grew", &[[90, 100], [50, 100], [5, 100]]),
            (Change::New, "new", &[[0, 1]]),
        ];
        let (wide, gap) = (176, 8);
        let mut x = (WIDTH - 5 * wide - 4 * gap) / 2;
        head.push_str("<g id=\"legend\">\n");
        for (change, word, colors) in boxes {
            let part = wide / colors.len();
            for (index, &insns) in colors.iter().enumerate() {
                // The last box also takes the remainder of the division.
                let width = if index + 1 == colors.len() { wide - index * part } else { part };
                let _ = writeln!(
                    head,
                    "<rect x=\"{}\" y=\"40\" width=\"{width}\" height=\"26\" fill=\"{}\"/>",
                    x + index * part,
                    fill(&Node::exact(insns)),
                );
            }
            let count = counts.get(&change).copied().unwrap_or(0);
            let _ = writeln!(
                head,
                "<rect class=\"{word}\" x=\"{x}\" y=\"40\" width=\"{wide}\" height=\"26\" fill=\"none\" stroke=\"rgb(120,120,120)\"/>\n\
                 <text class=\"strong\" x=\"{}\" y=\"57\">{word}: {}</text>",
                x + wide / 2,
                plural(count, "frame"),
            );
            x += wide + gap;
        }
        let _ = writeln!(
            head,
            "<text x=\"{}\" y=\"84\">Colour: change of a frame with all below it. <tspan id=\"scale\">{}</tspan> \
             Click to zoom both.{}</text>\n</g>",
            WIDTH / 2,
            if self.has_own_scales() { OWN_SCALES } else { ONE_SCALE },
            if self.nodes.iter().any(|node| node.is_sampled) { BY_SAMPLES } else { "" },
        );
    }
}

const STYLE: &str = "
text { font-family:monospace; font-size:12px }
#title { text-anchor:middle; font-size:17px }
#legend text, #note { text-anchor:middle }
#note { font-size:17px; font-weight:bold }
#same { fill:rgb(226,243,226); stroke:rgb(70,140,70) }
.strong { font-weight:bold }
.side { font-size:14px }
.panel rect { stroke:white; stroke-width:0.5 }
.panel .new > rect, rect.new { stroke:rgb(150,0,0); stroke-width:1; stroke-dasharray:4,2 }
.panel .vanished > rect, rect.vanished { stroke:rgb(0,40,150); stroke-width:1; stroke-dasharray:4,2 }
.panel > g:hover > rect { stroke:black; stroke-width:1 }
#matched, #search { text-anchor:end }
#search, #unzoom { fill:rgb(31,95,168); text-decoration:underline; cursor:pointer }
.panel > g:hover { cursor:pointer }
.hide { display:none }
.parent { opacity:0.5 }
";

const SCRIPT: &str = include_str!("differential.js");

/// Stripes of two shades of the strongest colour.
fn stripes(id: &str, change: f64) -> String {
    let (light, dark) = (rgb(shade(change, 1.1)), rgb(shade(change, 1.45)));
    format!(
        "<pattern id=\"{id}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><rect width=\"8\" height=\"8\" fill=\"{light}\"/>\
         <rect width=\"3\" height=\"8\" fill=\"{dark}\"/></pattern>\n"
    )
}

/// The colour of a change.
fn fill(node: &Node) -> String {
    let [before, after] = node.insns;
    match Change::of(node) {
        Change::New => NEW.to_owned(),
        Change::Vanished => VANISHED.to_owned(),
        Change::Same => rgb(ROOT),
        Change::Grew | Change::Shrank => {
            let change = (after as f64 - before as f64) / before.max(after) as f64;
            // Most changes are small, so a power below 1 spreads them out. Even the smallest change differs in colour
            // from none.
            rgb(shade(change, 0.06 + 0.94 * change.abs().powf(0.6)))
        }
    }
}

/// Red for growth and blue for decline, darker for larger changes.
fn shade(change: f64, strength: f64) -> Color {
    let hue = if change > 0.0 { 6.0 } else { 214.0 };
    from_hsl(hue, (0.55 + 0.35 * strength).min(1.0), 0.95 - 0.27 * strength)
}

fn rgb(color: Color) -> String {
    format!("rgb({},{},{})", color.r, color.g, color.b)
}

/// The hover text of a frame. It has no parentheses, since the script removes parentheses to get the name.
fn hover(node: &Node) -> String {
    let about = if node.is_sampled { ABOUT } else { "" };
    let [before, after] = node.insns.map(|insns| format!("{about}{}", group(insns)));
    let mut hover = format!("{before} instructions before, {after} after: {}", difference(node));
    let calls = [At::Before, At::After].map(|at| node.call(at));
    if node.insns[0] > 0 && node.insns[1] > 0 && calls[0] != calls[1] && !calls.contains(&Call::None) {
        let words = calls.map(|call| match call {
            Call::None | Call::Called => "called",
            Call::Inlined => "inlined",
            Call::Partly => "partly inlined",
        });
        let _ = write!(hover, ", {} before, {} after", words[0], words[1]);
    }
    hover
}

/// Sign before a number that depends on samples.
const ABOUT: &str = "\u{2248}";

/// The difference in instructions and in percent, with its error if it depends on samples.
fn difference(node: &Node) -> String {
    let [before, after] = node.insns;
    let sign = if after < before { "-" } else { "+" };
    let insns = format!("{sign}{}", group(after.abs_diff(before)));
    let insns = match node.error_insns {
        0 => insns,
        error => format!("{ABOUT}{insns} \u{b1}{}", group(error)),
    };
    match Change::of(node) {
        Change::Same if before != after => format!("{insns}, within the error of the samples"),
        Change::Same => "the same".to_owned(),
        Change::New => format!("{insns}, new"),
        Change::Vanished => format!("{insns}, -100.00%, vanished"),
        Change::Grew | Change::Shrank => {
            let percent = percent_change(before, after);
            // A small difference must not read as zero.
            if percent.abs() < 0.005 {
                format!("{insns}, {sign}less than 0.01%")
            } else {
                format!("{insns}, {percent:+.2}%")
            }
        }
    }
}

/// The change as a few letters inside the frame; empty if its amount is below 0.05 %.
fn short_change(node: &Node) -> String {
    let [before, after] = node.insns;
    match Change::of(node) {
        Change::New => return "new".to_owned(),
        Change::Vanished => return "vanished".to_owned(),
        Change::Same => return String::new(),
        Change::Grew | Change::Shrank => {}
    }
    let about = if node.error_insns > 0 { ABOUT } else { "" };
    let percent = percent_change(before, after);
    match percent.abs() {
        0.0..0.05 => String::new(),
        0.05..10.0 => format!("{about}{percent:+.1}%"),
        10.0..1000.0 => format!("{about}{percent:+.0}%"),
        _ => format!("{about}\u{d7}{:.0}", after as f64 / before.max(1) as f64),
    }
}

/// Cuts a frame's name and change to the frame's width. The script does the same.
fn fitting(name: &str, change: &str, width: f64) -> String {
    // The conversion makes 0 of negative numbers.
    let letters = ((width - 3.0) / (LETTER * FONT)) as usize;
    let length = name.chars().count();
    if !change.is_empty() && length + 1 + change.chars().count() <= letters {
        format!("{name} {change}")
    } else if length <= letters {
        name.to_owned()
    } else if letters < 3 {
        String::new()
    } else {
        name.chars().take(letters - 2).collect::<String>() + ".."
    }
}

/// Keeps the end of a long label, since a file's name says more than its folders.
fn shortened(label: &str) -> String {
    let length = label.chars().count();
    if length <= MOST_LETTERS {
        return label.to_owned();
    }
    format!("\u{2026}{}", label.chars().skip(length + 1 - MOST_LETTERS).collect::<String>())
}
