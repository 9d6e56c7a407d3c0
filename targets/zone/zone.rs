//! Names what firmware does, for harness to count: zones, phases and marks. Copy this one file, and say
//! `#[macro_use] mod zone;` before the modules that use it. It needs nothing but `core`.
//!
//! ```ignore
//! zone!("decode");          // from here to the end of the scope
//! zone_begin!("wait");      // from here…
//! zone_end!("wait");        // …to here, in whatever functions
//! phase!("boot");           // from here to the next phase
//! mark!("frame", number);   // a value, once
//! ```
//!
//! Each of them is one `nop`. What it stands for is said in a section that is not loaded (`.zones`): where the nop is,
//! which name, in which register the value. So it takes no RAM and does nothing on a chip; a value is at most one
//! instruction more. With `--cfg zone_off` nothing is left. Names are literals without `"`, `\` and `{`.
#![allow(unexpected_cfgs, unused_macros, dead_code, reason = "one file for all that copy it")]

/// A value for `mark!`: what is not wider than a register. It is read as a signed number.
pub trait Value {
    /// It as a register has it.
    fn register(self) -> isize;
}

macro_rules! value {
    ($($kind:ty as $signed:ty;)*) => {
        $(impl Value for $kind {
            #[inline(always)]
            fn register(self) -> isize {
                self as $signed as isize
            }
        })*
    };
}
// What has 32 bits is signed on RV64, too: registers have it so.
value!(bool as u8; u8 as u8; i8 as i8; u16 as u16; i16 as i16; u32 as i32; i32 as i32; usize as isize; isize as isize;);
#[cfg(target_pointer_width = "64")]
value!(u64 as i64; i64 as i64;);

/// One event: a nop, and its record. Assemblers' own counter makes its label one of a kind, for LLVM has no other here.
#[cfg(not(zone_off))]
macro_rules! zone_event {
    ($kind:literal, $detail:literal, $name:literal $(, $value:expr)?) => {
        // SAFETY: an instruction that does nothing.
        #[allow(named_asm_labels, reason = "no two have one name")]
        unsafe {
            ::core::arch::asm!(
                ".ifndef .Lzone_events",
                ".set .Lzone_events, 0",
                ".endif",
                ".set .Lzone_events, .Lzone_events + 1",
                ".macro zone_event number",
                ".Lzone_event_\\number:",
                "nop",
                ".pushsection .zones,\"?o\",%progbits,.Lzone_event_\\number",
                concat!(".ascii \"Z", $kind, "\""),
                zone_address!(".Lzone_event_\\number"),
                concat!(".asciz \"", $detail, "\""),
                concat!(".asciz \"", $name, "\""),
                ".popsection",
                ".endm",
                ".altmacro",
                "zone_event %.Lzone_events",
                ".noaltmacro",
                ".purgem zone_event",
                $(in(reg) $crate::zone::Value::register($value),)?
                options(nostack, preserves_flags),
            )
        }
    };
}

#[cfg(zone_off)]
macro_rules! zone_event {
    ($kind:literal, $detail:literal, $name:literal $(, $value:expr)?) => {
        $(let _ = $value;)?
    };
}

#[cfg(target_pointer_width = "64")]
macro_rules! zone_address {
    ($label:literal) => {
        concat!(".8byte ", $label)
    };
}

#[cfg(not(target_pointer_width = "64"))]
macro_rules! zone_address {
    ($label:literal) => {
        concat!(".4byte ", $label)
    };
}

/// A zone from here to the end of the scope, however that is left.
macro_rules! zone {
    ($name:literal) => {
        let _zone = {
            struct Zone;
            impl Drop for Zone {
                #[inline(always)]
                fn drop(&mut self) {
                    zone_event!("L", "", $name);
                }
            }
            zone_event!("E", "", $name);
            Zone
        };
    };
}

/// A zone from here to `zone_end!` of the same name.
macro_rules! zone_begin {
    ($name:literal) => {
        zone_event!("B", "", $name)
    };
}

/// The end of a zone that `zone_begin!` began.
macro_rules! zone_end {
    ($name:literal) => {
        zone_event!("F", "", $name)
    };
}

/// A phase from here to the next.
macro_rules! phase {
    ($name:literal) => {
        zone_event!("P", "", $name)
    };
}

/// A value, once.
macro_rules! mark {
    ($name:literal, $value:expr) => {
        zone_event!("M", "{0}", $name, $value)
    };
}
// SPDX-License-Identifier: MIT OR Apache-2.0
