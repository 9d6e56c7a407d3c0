// SPDX-License-Identifier: MIT OR Apache-2.0
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

/// Style rules for readers that prefer a dark scheme, after all other rules. Frames keep their colours, which are light, and
/// so do the texts on them.
pub(super) const DARK: &str = "
@media (prefers-color-scheme: dark) {
#background stop { stop-color:#17191b }
#backdrop { fill:#17191b }
text { fill:#dfe1e2 }
#subtitle, #legend text { fill:#a3a8ad }
#frames text, .panel text, #note, #legend .strong { fill:black }
#search, #unzoom { fill:#8bbaf0 }
#matched { fill:#ff8fca }
.panel rect { stroke:#17191b }
#frames > *:hover, .panel > g:hover > rect { stroke:white }
}
";

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

#[cfg(test)]
pub(super) mod contrast {
    use super::*;

    /// Contrast of two colours, as WCAG 2.2 computes it; 4.5 is the least for text.
    pub(in crate::export) fn contrast(one: Color, other: Color) -> f64 {
        let luminance = |Color { r, g, b }: Color| {
            let channel = |value: u8| match f64::from(value) / 255.0 {
                value if value <= 0.04045 => value / 12.92,
                value => ((value + 0.055) / 1.055).powf(2.4),
            };
            0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b)
        };
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    fn parse(hex: &str) -> Color {
        let channel = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        Color { r: channel(0), g: channel(2), b: channel(4) }
    }

    #[test]
    fn texts_outside_of_frames_have_contrast_in_the_dark_scheme() {
        let found = regex::Regex::new(r"fill:#([0-9a-f]{6})").unwrap();
        let colors: Vec<&str> = found.captures_iter(DARK).map(|found| found.extract::<1>().1[0]).collect();
        let (papers, texts): (Vec<&str>, Vec<&str>) = colors.iter().partition(|color| **color == "17191b");
        assert_eq!((papers.len(), texts.len()), (1, 4), "{colors:?}");
        for text in texts {
            let contrast = contrast(parse(text), parse("17191b"));
            assert!(contrast >= 4.5, "{text}: {contrast:.2}");
        }
    }
}
