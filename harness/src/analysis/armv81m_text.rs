// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text of Armv8.1-M's instructions for general registers, which the disassembler's library takes for others: conditional
//! selects, low-overhead loops, long shifts. Sections are those of the Armv8-M Architecture Reference Manual, DDI 0553.

const CONDITIONS: [&str; 14] = ["eq", "ne", "hs", "lo", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le"];

/// Name of a register; 15 is zero where a select has it.
fn register(number: u16) -> &'static str {
    const NAMES: [&str; 16] =
        ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "sb", "sl", "fp", "ip", "sp", "lr", "zr"];
    NAMES[usize::from(number & 15)]
}

/// Mnemonic and operands of an instruction by its halfwords; the target of a branch is left to the caller. None: it is
/// another one.
pub(super) fn text(first: u16, second: u16) -> Option<(String, String)> {
    let (mnemonic, operands) = match first & 0xfff0 {
        0xea50 if second >> 14 == 2 => select(first, second)?,
        0xea50 => shift(first, second)?,
        0xf000..=0xf040 => hardware_loop(first, second)?,
        _ => return None,
    };
    Some((mnemonic.to_owned(), operands))
}

/// "CSEL", "CSINC", "CSINV", "CSNEG", and the names of their common forms.
fn select(first: u16, second: u16) -> Option<(&'static str, String)> {
    let (n, d, m) = (first & 15, second >> 8 & 15, second & 15);
    let condition = usize::from(second >> 4 & 15);
    let ([d, from], kind) = ([register(d), register(n)], second >> 12 & 3);
    let (same, is) = (CONDITIONS.get(condition ^ 1)?, CONDITIONS[condition]);
    Some(match kind {
        1 | 2 if n == m && n == 15 => (["cset", "csetm"][usize::from(kind) - 1], format!("{d}, {same}")),
        1..=3 if n == m && n != 15 => {
            (["cinc", "cinv", "cneg"][usize::from(kind) - 1], format!("{d}, {from}, {same}"))
        }
        _ => (["csel", "csinc", "csinv", "csneg"][usize::from(kind)], format!("{d}, {from}, {}, {is}", register(m))),
    })
}

/// Shifts of two registers together, and shifts that saturate or round: "LSLL" to "UQRSHLL". They have the encodings of
/// "ORR (register)" with sp or pc as the shifted register.
fn shift(first: u16, second: u16) -> Option<(&'static str, String)> {
    let (low, high) = (first & 15, second >> 8 & 15);
    let (is_single, is_wide_special) = (high == 15, low & 1 == 1);
    if !is_single && high & 1 == 0 || is_single && matches!(low, 13 | 15) {
        return None;
    }
    // The registers of a pair have an even and an odd number.
    let operands =
        if is_single { register(low).to_owned() } else { format!("{}, {}", register(low & 14), register(high)) };
    let kind = usize::from(second >> 4 & 3);
    if second & 0x800f == 0x000f {
        let names = match (is_single, is_wide_special) {
            (true, _) => ["uqshl", "urshr", "srshr", "sqshl"],
            (false, true) => ["uqshll", "urshrl", "srshrl", "sqshll"],
            (false, false) if kind == 3 => return None,
            (false, false) => ["lsll", "lsrl", "asrl", ""],
        };
        let amount = second >> 10 & 0x1c | second >> 6 & 3;
        return Some((names[kind], format!("{operands}, #{}", if amount == 0 { 32 } else { amount })));
    }
    let (is_right, amount) = (kind == 2, register(second >> 12));
    let has_saturation = !is_single && is_wide_special;
    let is_known = second & 0x1f == 0x0d && (has_saturation && second & 0x40 == 0 || second & 0xc0 == 0);
    let name = match (is_single, is_wide_special, is_right) {
        (true, _, false) => "uqrshl",
        (true, _, true) => "sqrshr",
        (false, false, false) => "lsll",
        (false, false, true) => "asrl",
        (false, true, false) => "uqrshll",
        (false, true, true) => "sqrshrl",
    };
    let saturation = match (has_saturation, second & 0x80 == 0) {
        (false, _) => "",
        (true, true) => "#64, ",
        (true, false) => "#48, ",
    };
    is_known.then(|| (name, format!("{operands}, {saturation}{amount}")))
}

/// "WLS, DLS, WLSTP, DLSTP", "LE, LETP" and "LCTP".
fn hardware_loop(first: u16, second: u16) -> Option<(&'static str, String)> {
    const WHILE: [&str; 5] = ["wlstp.8", "wlstp.16", "wlstp.32", "wlstp.64", "wls"];
    const DO: [&str; 5] = ["dlstp.8", "dlstp.16", "dlstp.32", "dlstp.64", "dls"];
    let (n, kind) = (first & 15, usize::from(first >> 4 & 15));
    match (second & 0xf001, n) {
        (0xc001, 15) => match kind {
            0 => Some(("le", "lr, ".to_owned())),
            1 => Some(("letp", "lr, ".to_owned())),
            2 => Some(("le", String::new())),
            _ => None,
        },
        (0xc001, _) => Some((WHILE.get(kind)?, format!("lr, {}, ", register(n)))),
        (0xe001, 15) => (kind == 0).then(|| ("lctp", String::new())),
        (0xe001, _) if second == 0xe001 => Some((DO.get(kind)?, format!("lr, {}", register(n)))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_loops_and_long_shifts_have_their_names() {
        // By GNU as 2.40.
        for (first, second, expected) in [
            (0xea51, 0x8012, "csel r0, r1, r2, ne"),
            (0xea51, 0x9002, "csinc r0, r1, r2, eq"),
            (0xea54, 0xa3b5, "csinv r3, r4, r5, lt"),
            (0xea54, 0xb385, "csneg r3, r4, r5, hi"),
            (0xea5f, 0x900f, "cset r0, ne"),
            (0xea5f, 0xa05f, "csetm r0, mi"),
            (0xea52, 0x91b2, "cinc r1, r2, ge"),
            (0xea52, 0xa172, "cinv r1, r2, vs"),
            (0xea52, 0xb122, "cneg r1, r2, lo"),
            (0xea5f, 0x8012, "csel r0, zr, r2, ne"),
            (0xea51, 0x900f, "csinc r0, r1, zr, eq"),
            (0xea5c, 0x8edf, "csel lr, ip, zr, le"),
            (0xf043, 0xe001, "dls lr, r3"),
            (0xf00f, 0xc803, "le lr, "),
            (0xf02f, 0xc803, "le "),
            (0xf042, 0xc803, "wls lr, r2, "),
            (0xf012, 0xe001, "dlstp.16 lr, r2"),
            (0xf00f, 0xe001, "lctp "),
            (0xea50, 0x110f, "lsll r0, r1, #4"),
            (0xea50, 0x212d, "asrl r0, r1, r2"),
            (0xea51, 0x212d, "sqrshrl r0, r1, #64, r2"),
            (0xea50, 0x1f2d, "sqrshr r0, r1"),
            (0xea50, 0x0fcf, "uqshl r0, #3"),
        ] {
            let (mnemonic, operands) = text(first, second).unwrap_or_default();
            assert_eq!(format!("{mnemonic} {operands}"), expected, "{first:x} {second:x}");
        }
        // Code: orrs r0, r1, r2; movs.w r0, r1; nop.w; b.w; a select by "always".
        for (first, second) in
            [(0xea51, 0x0002), (0xea5f, 0x0001), (0xf3af, 0x8000), (0xf000, 0xb800), (0xea51, 0x80e2)]
        {
            assert_eq!(text(first, second), None, "{first:x} {second:x}");
        }
    }
}
