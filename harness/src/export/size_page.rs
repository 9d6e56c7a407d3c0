// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page with two treemaps, of flash and of static RAM: region, library, file, symbol. It is one self-contained HTML
//! file without a script: each area has its numbers as a tooltip. Areas too small to see are drawn with their parent.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;

use anyhow::Result;

use crate::analysis::size::{Level, Piece, RegionUse, Size, Used};
use crate::text::markup::{escape, shown};
use crate::text::number::{group, group_known, percent, share};
use crate::text::symbol_name::file_name;

/// Width and height of a map, in pixels of its own scale.
const MAP: Area = Area { x: 0.0, y: 0.0, width: 1200.0, height: 620.0 };

/// Height of a heading, by depth: region, library, file.
const HEADINGS: [f64; 3] = [18.0, 16.0, 14.0];

/// Width of a letter.
const LETTER: f64 = 6.2;

/// Width of a letter of a heading.
const BOLD_LETTER: f64 = 7.0;

/// Depth of the files.
const FILE: usize = 2;

/// Smallest side of an area whose parts are drawn.
const MIN_SIDE: f64 = 6.0;

/// Smallest area that is drawn by itself.
const MIN_AREA: f64 = 3.0;

/// Number of colours for libraries; the largest ones get the first.
const COLORS: usize = 12;

/// Most rows of a table below the maps.
const MAX_ROWS: usize = 500;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c2024;--paper:#fff;--line:#c9ced6;--soft:#5f6872}\
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ee;--paper:#15181c;--line:#3a414a;--soft:#9aa4b0}}\
body{font:14px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:1240px;padding:0 1rem;color:var(--ink);background:var(--paper)}\
h1{font-size:1.3rem;margin:0 0 .4rem}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}p{margin:.2rem 0;color:var(--soft)}\
svg{width:100%;height:auto;display:block}svg text{font:11px system-ui,sans-serif;fill:#14181c;pointer-events:none}\
svg text.head{font-weight:600}svg rect{stroke:#fff;stroke-width:.6}svg rect:hover{stroke:#000;stroke-width:1.6}\
svg rect.used{fill:#14181c;fill-opacity:.28;stroke:none;pointer-events:none}\
.bar{display:grid;grid-template-columns:minmax(6rem,12rem) 1fr minmax(15rem,auto);gap:.6rem;align-items:center;margin:.25rem 0}\
.bar div{height:.9rem;background:var(--line);border-radius:3px;overflow:hidden}.bar i{display:block;height:100%;background:#3f7fbf}.bar i.full{background:#c8452f}\
table{border-collapse:collapse;margin:.4rem 0}td,th{padding:.12rem .7rem;text-align:right;border-bottom:1px solid var(--line)}\
td:first-child,th:first-child{text-align:left;word-break:break-all}details{margin:.5rem 0}summary{cursor:pointer}";

#[derive(Clone, Copy, Debug, PartialEq)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// Area of a map, with its parts.
#[derive(Debug, Default)]
struct Node {
    name: String,
    bytes: u64,
    /// Colour, of a library or a part of it.
    color: usize,
    /// Share that the run used, with the sentence about it.
    used: Option<(f64, String)>,
    parts: Vec<Node>,
}

/// Writes the page.
///
/// # Errors
/// Errors of `out`.
pub fn write(size: &Size, used: &[Used], summary: &[String], out: &mut dyn Write) -> Result<()> {
    let title = escape(&shown(&size.image));
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>Size of {title}</title><style>{STYLE}</style></head><body>\n\
         <h1>Size of {title}</h1>\n"
    )?;
    for line in summary {
        writeln!(out, "<p>{}</p>", escape(&shown(line)))?;
    }
    for region in size.regions.iter().filter(|region| region.used_bytes > 0) {
        bar(region, out)?;
    }
    let ranks = ranks(size);
    for (which, title, total) in [(0, "Flash", size.total.flash), (1, "Static RAM", size.total.ram)] {
        if total > 0 {
            let root = tree(size, used, &ranks, which);
            writeln!(out, "<h2>{title}: {} bytes</h2>\n{}", group(total), map(&root))?;
        }
    }
    if !used.is_empty() {
        writeln!(out, "<h2>Used by the run</h2>\n<p>The dark part of an area is what the run used of it.</p>")?;
        let rows = used.iter().map(|row| {
            let reserved = row.reserved.map(|(_, bytes)| bytes);
            let of = row.used_bytes.zip(reserved).map_or_else(String::new, |(used, of)| share(used, of));
            let certainty = if row.used_bytes.is_some() { row.certainty } else { "unknown" };
            [row.what.clone(), group_known(row.used_bytes), group_known(reserved), of, certainty.to_owned()]
        });
        table(["memory", "bytes", "of", "share", "number is"], rows, out)?;
    }
    for level in [Level::Section, Level::Library, Level::File, Level::Symbol] {
        let mut rows: Vec<_> = size.rows(level).into_iter().collect();
        rows.sort_by_key(|(name, bytes)| (Reverse(bytes.flash.max(bytes.ram)), name.clone()));
        let all = rows.len();
        rows.truncate(MAX_ROWS);
        let more = if all > MAX_ROWS { format!(", the largest {MAX_ROWS}") } else { String::new() };
        writeln!(out, "<details><summary>By {} ({}{more})</summary>", level.word(), group(all as u64))?;
        let rows = rows.into_iter().map(|(name, bytes)| [name, group(bytes.flash), group(bytes.ram)]);
        table([level.word(), "flash", "RAM"], rows, out)?;
        writeln!(out, "</details>")?;
    }
    writeln!(out, "</body></html>")?;
    Ok(())
}

fn bar(region: &RegionUse, out: &mut dyn Write) -> Result<()> {
    let RegionUse { memory, used_bytes } = region;
    let percent = percent(*used_bytes, memory.bytes);
    let full = if percent > 90.0 { " class=\"full\"" } else { "" };
    writeln!(
        out,
        "<div class=\"bar\"><span>{}</span><div><i{full} style=\"width:{:.2}%\"></i></div><span>{} of {} bytes, {}</span></div>",
        escape(&shown(&memory.name)),
        percent.min(100.0),
        group(*used_bytes),
        group(memory.bytes),
        share(*used_bytes, memory.bytes)
    )?;
    Ok(())
}

fn table<const COLUMNS: usize>(
    heads: [&str; COLUMNS],
    rows: impl Iterator<Item = [String; COLUMNS]>,
    out: &mut dyn Write,
) -> Result<()> {
    let row = |tag: &str, cells: &[String; COLUMNS]| {
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(&shown(cell)))).collect();
        format!("<tr>{cells}</tr>")
    };
    writeln!(out, "<table>{}", row("th", &heads.map(str::to_owned)))?;
    for cells in rows {
        writeln!(out, "{}", row("td", &cells))?;
    }
    writeln!(out, "</table>")?;
    Ok(())
}

/// Colours of the libraries: by size, so that the largest ones differ.
fn ranks(size: &Size) -> BTreeMap<String, usize> {
    let mut rows: Vec<_> = size.rows(Level::Library).into_iter().collect();
    rows.sort_by_key(|(name, bytes)| (Reverse(bytes.flash.max(bytes.ram)), name.clone()));
    rows.into_iter().enumerate().map(|(rank, (name, _))| (name, rank % COLORS)).collect()
}

/// Share of a piece that a run used, and a sentence about it.
type UsedShare = (f64, String);

/// Pieces of flash (0) or RAM (1) as a tree: region, library, file, symbol.
fn tree(size: &Size, used: &[Used], ranks: &BTreeMap<String, usize>, which: usize) -> Node {
    let mut rows: BTreeMap<[&str; 4], (u64, Option<UsedShare>)> = BTreeMap::new();
    for piece in &size.pieces {
        let bytes = if which == 0 { piece.takes.flash } else { piece.takes.ram };
        if bytes > 0 {
            let path = [size.region_name(piece.regions[which]), &piece.library, piece.file_name(), &piece.name];
            let row = rows.entry(path).or_default();
            row.0 = row.0.saturating_add(bytes);
            if which == 1 {
                row.1 = row.1.take().or_else(|| used_share(piece, used));
            }
        }
    }
    let mut root = Node::default();
    for (path, (bytes, used)) in rows {
        let color = ranks.get(path[1]).copied().unwrap_or(0);
        let mut node = &mut root;
        for (depth, name) in path.iter().enumerate() {
            node.bytes = node.bytes.saturating_add(bytes);
            // Paths come sorted: an equal part is the last one.
            if node.parts.last().is_none_or(|last| last.name != **name) {
                let color = if depth == 0 { COLORS } else { color };
                node.parts.push(Node { name: (*name).to_owned(), color, ..Node::default() });
            }
            let Some(last) = node.parts.last_mut() else { break };
            node = last;
        }
        node.bytes = node.bytes.saturating_add(bytes);
        node.used = used;
    }
    sort(&mut root);
    root
}

fn sort(node: &mut Node) {
    node.parts.sort_by(|one, other| (Reverse(one.bytes), &one.name).cmp(&(Reverse(other.bytes), &other.name)));
    node.parts.iter_mut().for_each(sort);
}

/// Share of a piece that the run used: what the run used of the largest reservation that lies in it.
fn used_share(piece: &Piece, used: &[Used]) -> Option<(f64, String)> {
    let end = piece.address.saturating_add(piece.bytes);
    let inside = used.iter().filter_map(|row| {
        let (start, bytes) = row.reserved.filter(|(_, bytes)| *bytes > 0)?;
        let is_inside = piece.address <= start && start.checked_add(bytes)? <= end;
        Some((bytes, row, row.used_bytes?)).filter(|_| is_inside)
    });
    let (reserved, row, bytes) = inside.max_by_key(|(bytes, row, _)| (*bytes, Reverse(row.what.clone())))?;
    let part = (bytes as f64 / piece.bytes as f64).min(1.0);
    Some((part, format!("{}: {} of {} bytes used", row.what, group(bytes), group(reserved))))
}

fn map(root: &Node) -> String {
    let mut svg = format!("<svg viewBox=\"0 0 {} {}\" role=\"img\">", MAP.width, MAP.height);
    let whole = root.bytes;
    parts(root, MAP, 0, whole, &mut svg);
    svg + "</svg>"
}

/// Draws the parts of a node in an area.
fn parts(node: &Node, area: Area, depth: usize, whole: u64, svg: &mut String) {
    let values: Vec<f64> = node.parts.iter().map(|part| part.bytes as f64).collect();
    for (part, area) in node.parts.iter().zip(squarified(&values, area)) {
        if area.width * area.height >= MIN_AREA {
            draw(part, area, depth, whole, svg);
        }
    }
}

fn draw(node: &Node, area: Area, depth: usize, whole: u64, svg: &mut String) {
    let Area { x, y, width, height } = area;
    let name = escape(&shown(&node.name));
    let fill = if node.color == COLORS {
        "#d9dde3".to_owned()
    } else {
        format!("hsl({},{}%,{}%)", (node.color * 137) % 360, 45 + 5 * (node.color % 3), 76 - 3 * depth)
    };
    let used = node.used.as_ref().map_or_else(String::new, |(_, text)| format!("\n{}", escape(&shown(text))));
    let _ = write!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"><title>{name}\n{} \
         bytes, {}{used}</title></rect>",
        group(node.bytes),
        share(node.bytes, whole)
    );
    if let Some((part, _)) = &node.used {
        let used_height = height * part;
        let _ = write!(
            svg,
            "<rect class=\"used\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{used_height:.1}\"/>",
            y + height - used_height
        );
    }
    let heading = HEADINGS.get(depth).copied().filter(|_| !node.parts.is_empty());
    let letters = ((width - 6.0) / if heading.is_some() { BOLD_LETTER } else { LETTER }).max(0.0) as usize;
    if letters >= 3 && height >= 14.0 {
        // The library's heading has the file's directory.
        let text = shown(if depth == FILE { file_name(&node.name) } else { &node.name });
        let text = if text.chars().count() <= letters {
            text
        } else {
            text.chars().take(letters - 1).chain(['\u{2026}']).collect()
        };
        let class = if heading.is_some() { " class=\"head\"" } else { "" };
        let _ = write!(svg, "<text{class} x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 3.0, y + 11.5, escape(&text));
    }
    let Some(heading) = heading else { return };
    let heading = if height > 2.5 * heading { heading } else { 0.0 };
    let inner = Area { x: x + 1.5, y: y + heading, width: width - 3.0, height: height - heading - 1.5 };
    if inner.width.min(inner.height) >= MIN_SIDE {
        parts(node, inner, depth + 1, whole, svg);
    }
}

/// Divides an area among values in descending order, by squarified treemaps (Bruls, Huizing and van Wijk, 2000): rows
/// along the shorter side, each as long as its areas become squarer.
fn squarified(values: &[f64], area: Area) -> Vec<Area> {
    let total: f64 = values.iter().sum();
    let scale = if total > 0.0 { area.width * area.height / total } else { 0.0 };
    let mut left = area;
    let mut areas = Vec::with_capacity(values.len());
    let mut at = 0;
    while at < values.len() {
        let side = left.width.min(left.height).max(f64::MIN_POSITIVE);
        let worst = |sum: f64, most: f64, least: f64| {
            let (sum, side) = (sum * scale, side * side);
            (side * most * scale / (sum * sum)).max(sum * sum / (side * least * scale))
        };
        let (mut end, mut sum) = (at + 1, values[at]);
        while end < values.len()
            && worst(sum + values[end], values[at], values[end]) <= worst(sum, values[at], values[end - 1])
        {
            sum += values[end];
            end += 1;
        }
        let depth = sum * scale / side;
        let mut along = 0.0;
        for value in &values[at..end] {
            let length = if sum > 0.0 { side * value / sum } else { 0.0 };
            areas.push(if left.width >= left.height {
                Area { x: left.x, y: left.y + along, width: depth, height: length }
            } else {
                Area { x: left.x + along, y: left.y, width: length, height: depth }
            });
            along += length;
        }
        if left.width >= left.height {
            left = Area { x: left.x + depth, width: (left.width - depth).max(0.0), ..left };
        } else {
            left = Area { y: left.y + depth, height: (left.height - depth).max(0.0), ..left };
        }
        at = end;
    }
    areas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_as_large_as_their_values_and_lie_side_by_side() {
        let values = [600.0, 600.0, 400.0, 300.0, 200.0, 200.0, 100.0, 0.0];
        let area = Area { x: 10.0, y: 20.0, width: 60.0, height: 40.0 };
        let areas = squarified(&values, area);
        for (value, part) in values.iter().zip(&areas) {
            assert!((part.width * part.height - value).abs() < 1e-6, "{part:?}");
            assert!(part.x >= 10.0 - 1e-9 && part.x + part.width <= 70.0 + 1e-9, "{part:?}");
            assert!(part.y >= 20.0 - 1e-9 && part.y + part.height <= 60.0 + 1e-9, "{part:?}");
        }
        for (index, one) in areas.iter().enumerate() {
            for other in &areas[index + 1..] {
                let overlap = |from: f64, to: f64, start: f64, end: f64| (to.min(end) - from.max(start)).max(0.0);
                let wide = overlap(one.x, one.x + one.width, other.x, other.x + other.width);
                let high = overlap(one.y, one.y + one.height, other.y, other.y + other.height);
                assert!(wide * high < 1e-6, "{one:?} {other:?}");
            }
        }
        // The paper's example: the first row has two equal areas.
        assert!((areas[0].width - 30.0).abs() < 1e-9 && (areas[0].height - 20.0).abs() < 1e-9, "{:?}", areas[0]);
    }
}
