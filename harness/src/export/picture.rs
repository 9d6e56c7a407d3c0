//! Properties that all pictures share, so that a frame looks the same in each.

use inferno::flamegraph::color::Color;

/// Width of the picture in pixels.
pub(super) const WIDTH: usize = 1200;

/// Width of a letter of the usual monospaced fonts, as a multiple of the font's size.
pub(super) const LETTER: f64 = 0.61;

/// Narrowest frame drawn, in percent of the picture: inferno's default.
pub(super) const MIN_WIDTH: f64 = 0.01;

/// Colour of the root frame, and of unchanged frames.
pub(super) const ROOT: Color = Color { r: 232, g: 232, b: 232 };

/// Makes a colour from hue (degrees), saturation and lightness (0 to 1).
pub(super) fn from_hsl(hue: f64, saturation: f64, lightness: f64) -> Color {
    let chroma = saturation * lightness.min(1.0 - lightness);
    let channel = |offset: f64| {
        let position = (offset + hue / 30.0).rem_euclid(12.0);
        let value = lightness - chroma * (position - 3.0).min(9.0 - position).clamp(-1.0, 1.0);
        (value * 255.0).round() as u8
    };
    Color { r: channel(0.0), g: channel(8.0), b: channel(4.0) }
}
