//! What the pictures have in common, so that a frame is called and looks the same in all of them.

use inferno::flamegraph::color::Color;

use crate::stacks::{Frame, Kind};

/// Width of the picture in pixels.
pub(super) const WIDTH: usize = 1200;

/// What follows the name of an inlined frame, as perf writes it.
pub(super) const INLINED: &str = " (inlined)";

/// Width of a letter of the usual monospaced fonts, in font sizes.
pub(super) const LETTER: f64 = 0.61;

/// Narrowest frame drawn, in percent of the picture: inferno's usual.
pub(super) const MIN_WIDTH: f64 = 0.01;

/// What is below all others, and what has not changed.
pub(super) const ROOT: Color = Color { r: 232, g: 232, b: 232 };

/// A frame's name as it is shown.
pub(super) fn show(frame: &Frame) -> String {
    let name = clean(&frame.name);
    if frame.kind == Kind::Inlined { name + INLINED } else { name }
}

/// A colour by hue (degrees), saturation and lightness (0 to 1).
pub(super) fn from_hsl(hue: f64, saturation: f64, lightness: f64) -> Color {
    let chroma = saturation * lightness.min(1.0 - lightness);
    let channel = |offset: f64| {
        let position = (offset + hue / 30.0).rem_euclid(12.0);
        let value = lightness - chroma * (position - 3.0).min(9.0 - position).clamp(-1.0, 1.0);
        (value * 255.0).round() as u8
    };
    Color { r: channel(0.0), g: channel(8.0), b: channel(4.0) }
}

/// A name that XML can hold.
pub(super) fn printable(name: &str) -> String {
    let is_illegal = |character: char| character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}');
    name.trim().chars().map(|character| if is_illegal(character) { '?' } else { character }).collect()
}

/// A name that inferno reads as one frame and XML can hold.
pub(super) fn clean(name: &str) -> String {
    let mut clean = printable(name).replace(';', ":");
    // It would be read as a count.
    if let Some((_, last)) = clean.rsplit_once(' ')
        && last.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        let space = clean.len() - last.len() - 1;
        clean.replace_range(space..=space, "_");
    }
    // A line that starts so is a comment; these letters at the end are a colour, "-" and "--" as well.
    if clean.is_empty() || clean.starts_with("# ") || matches!(clean.as_str(), "-" | "--") {
        clean.insert(0, '?');
    }
    clean
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
