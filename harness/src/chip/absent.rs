// SPDX-License-Identifier: MIT OR Apache-2.0
//! Families of chips that no chip file can describe yet, by the names that people give, with the reason.

/// Chips of one kind.
struct Family {
    /// Beginnings of the chips' names, in small letters.
    names: &'static [&'static str],
    /// Their processor.
    core: &'static str,
    why: Why,
}

/// Reason why no chip file describes a family.
enum Why {
    /// Neither harness nor the plugin knows the processor.
    Processor,
    /// Interrupts are taken by a controller that is part of the processor, which a plugin cannot add to QEMU's.
    Interrupts(&'static str),
    /// QEMU lacks the processor, so no machine can be a base.
    Qemu,
}

const FAMILIES: &[Family] = &[
    Family {
        names: &["esp32c", "esp32-c", "esp32h", "esp32-h"],
        core: "RISC-V",
        why: Why::Interrupts("Espressif's interrupt matrix"),
    },
    Family { names: &["ch32v", "ch32x", "ch56", "ch57", "ch58"], core: "RISC-V", why: Why::Interrupts("WCH's PFIC") },
    Family { names: &["gd32vf", "gd32vw"], core: "RISC-V", why: Why::Interrupts("Nuclei's ECLIC") },
    Family {
        names: &["saml10", "saml11", "atsaml10", "atsaml11", "gd32e23", "m2351"],
        core: "Cortex-M23",
        why: Why::Qemu,
    },
    Family { names: &["esp32", "esp8266"], core: "Xtensa", why: Why::Processor },
];

/// Sentence on a chip that cannot be described: its processor, the reason, and the next step. None: nothing is known
/// against a chip of this name.
pub(super) fn why(name: &str) -> Option<String> {
    let name = name.to_lowercase();
    if super::names().any(|known| known == name) {
        return None;
    }
    let family = FAMILIES.iter().find(|family| family.names.iter().any(|beginning| name.starts_with(beginning)))?;
    let core = family.core;
    let next = "Its firmware runs as far as one of QEMU's machines carries it (`harness list machines`)";
    let relative = "A chip file gives its firmware memory and registers, but no interrupts (docs/chips.md): see esp32c3, ch32v103, \
                    gd32vf103";
    Some(match family.why {
        Why::Processor => {
            format!("is a chip with a processor that harness does not know ({core}); it knows Cortex-M and RISC-V")
        }
        Why::Interrupts(controller) => format!(
            "is a {core} chip whose interrupts go through {controller}, a part of the processor that a plugin cannot add to \
             QEMU's. {relative}"
        ),
        Why::Qemu => format!("is a chip with a {core}, a processor that QEMU does not have. {next}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_that_cannot_be_described_are_refused_by_name_with_the_reason() {
        for (name, said) in [
            ("esp32c2", "Espressif's interrupt matrix"),
            ("ESP32-C6", "Espressif's interrupt matrix"),
            ("ch32v003f4", "WCH's PFIC"),
            ("gd32vw553", "Nuclei's ECLIC"),
            ("saml11", "Cortex-M23"),
            ("ATSAML10E16A", "Cortex-M23"),
            ("m2351kia", "Cortex-M23"),
            ("esp32s3", "Xtensa"),
        ] {
            assert!(why(name).is_some_and(|why| why.contains(said)), "{name}: {:?}", why(name));
        }
        // What is only not described yet is not refused.
        let others = ["stm32g031", "rp2040", "nrf52840", "samd21", "gd32f103", "stm32l476", "nrf9160", ""];
        assert!(others.into_iter().chain(super::super::names()).all(|name| why(name).is_none()));
    }
}
