// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes outside of a chip, by the names of its chip file: fields of peripherals, pins as boards name them, bytes of devices on its
//! buses, texts for its serial ports, frames for its CAN controllers. They become rows for the plugin ([`Stimulus`]).

use wire::can::Frame;
use wire::chip::{Block, DeviceByte, Field, MAX_STIMULI, PinAt, Setting, Stimulus};

use super::can::FRAME;
use super::resolve::mask;
use super::{Chip, NamedDevice};
use crate::error::InputError;
use crate::profile::input::{Input, What, When};
use crate::profile::outside::{Change, Outside};

/// Name of a chip's only CAN controller, whatever it is called.
pub(crate) const CAN: &str = "CAN";

/// Parts of its time after which a contact that bounces changes: once more each time, and from the last on it holds.
const BOUNCES: [(u64, u64); 4] = [(1, 8), (1, 4), (1, 2), (1, 1)];

/// A change of one part of the chip.
struct Found {
    block: u32,
    what: Part,
}

enum Part {
    Field(Setting),
    Byte(DeviceByte),
}

impl Chip {
    /// Adds the changes that the input brings. They are not the chip's own, whose hash stays.
    ///
    /// # Errors
    /// When the chip has no part of a name, or its value does not fit.
    pub(crate) fn connect(&mut self, inputs: &[Input]) -> Result<(), InputError> {
        let mut step = 0;
        for input in inputs {
            let (of_step, at_insns, at_ns) = match &input.when {
                When::At(insns) => (None, *insns, 0),
                When::AtNs(ns) => (None, 0, *ns),
                When::After(_) => (Some(step), 0, 0),
            };
            step += u32::from(input.is_step());
            if let What::Outside(outside) = &input.what {
                let begins = Stimulus { step: of_step, at_insns, at_ns, ..Stimulus::default() };
                let changes = self.changes(outside, &begins);
                let changes = changes.map_err(|what| InputError::new(format!("input: {outside}: {what}")))?;
                if of_step.is_none() {
                    self.by_clock.push(self.wire.stimuli.len());
                }
                self.wire.stimuli.extend(changes);
                if self.wire.stimuli.len() > MAX_STIMULI {
                    return Err(InputError::new(format!(
                        "input: more than {MAX_STIMULI} changes, with those of bounces"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Number of inputs by the clock that the run ended before, where so many changes came by it and an instruction takes 2^`shift`
    /// ns.
    pub(crate) fn missed(&self, came: u64, shift: u32) -> usize {
        let by_clock = self.wire.stimuli.iter().enumerate().filter(|(_, stimulus)| stimulus.step.is_none());
        let mut order: Vec<(u64, usize)> =
            by_clock.map(|(index, stimulus)| (stimulus.delay_ns(shift), index)).collect();
        order.sort_unstable();
        let late = order.iter().skip(usize::try_from(came).unwrap_or(usize::MAX));
        late.filter(|(_, index)| self.by_clock.binary_search(index).is_ok()).count()
    }

    /// Changes that come together, from a time on.
    fn changes(&self, outside: &Outside, begins: &Stimulus) -> Result<Vec<Stimulus>, String> {
        let mut all = Vec::new();
        for change in &outside.changes {
            match change {
                Change::Typed { port, bytes } => match self.can(port) {
                    Some(block) => {
                        all.push(Stimulus { block: block?, frames: frames(bytes)?, ..begins.clone() });
                    }
                    None => {
                        let block = self.port(port)?;
                        all.push(Stimulus { block, typed: bytes.clone(), ..begins.clone() });
                    }
                },
                Change::Set(text) => {
                    let Found { block, what } = self.find(text)?;
                    for (after_ns, is_back) in edges(outside) {
                        let mut one = Stimulus { block, ..begins.clone() };
                        one.at_ns = one.at_ns.saturating_add(after_ns);
                        match &what {
                            Part::Field(setting) if is_back && setting.field.mask.count_ones() != 1 => {
                                return Err(format!("only a level changes back or bounces, and {text} is a value"));
                            }
                            Part::Byte(_) if is_back => {
                                return Err(format!("only a level changes back or bounces, and {text} is a byte"));
                            }
                            Part::Field(setting) => {
                                let value = setting.value ^ u32::from(is_back);
                                one.set = vec![Setting { value, ..setting.clone() }];
                            }
                            Part::Byte(byte) => one.devices = vec![byte.clone()],
                        }
                        all.push(one);
                    }
                }
            }
        }
        Ok(all)
    }

    /// The change that a text as `GPIOC.PIN[13]=0` means, as a row of a chip file has it.
    pub(super) fn stimulus(&self, text: &str, at_insns: u64) -> Result<Stimulus, String> {
        let Found { block, what } = self.find(text)?;
        let mut one = Stimulus { at_insns, block, ..Stimulus::default() };
        match what {
            Part::Field(setting) => one.set = vec![setting],
            Part::Byte(byte) => one.devices = vec![byte],
        }
        Ok(one)
    }

    /// The part of a name, with its value, which is 1 if the text has none.
    fn find(&self, text: &str) -> Result<Found, String> {
        let (name, value) = text.split_once('=').unwrap_or((text, "1"));
        let (name, value) = (name.trim(), value.trim());
        let digits = value.strip_prefix("0x").map(|digits| u32::from_str_radix(digits, 16));
        let misfit = || format!("{text}: that value does not fit");
        let value = digits.unwrap_or_else(|| value.parse()).map_err(|_| misfit())?;
        if let Some((block, what)) = self.device_byte(name, value) {
            return what.map(|byte| Found { block, what: Part::Byte(byte) }).ok_or_else(misfit);
        }
        let (block, field) = self.pin(name).map_or_else(|| self.field(name), Ok)?;
        let fits = field.of(field.put_in(0, value)) == value;
        fits.then_some(Found { block, what: Part::Field(Setting { field, value }) }).ok_or_else(misfit)
    }

    /// A byte of a device that has a name: `TEMP[3]`. None: no device has the name; then none: it has no such byte, or the value
    /// is not one.
    fn device_byte(&self, name: &str, value: u32) -> Option<(u32, Option<DeviceByte>)> {
        let (name, at) = name.strip_suffix(']')?.split_once('[')?;
        let NamedDevice { block, device, .. } = self.devices.iter().find(|own| own.name == name)?;
        let bytes = self.wire.blocks[*block as usize].devices[*device as usize].all_bytes();
        let digits = at.strip_prefix("0x").map(|digits| u32::from_str_radix(digits, 16));
        let at = digits.unwrap_or_else(|| at.parse()).ok().filter(|&at| at < bytes && value < 256);
        Some((*block, at.map(|at| DeviceByte { device: *device, at, value })))
    }

    /// A pin, as boards name it: `PA0` and `PTA0` of the ports GPIOA or PORTA, `P0.11` of P0, `GPIO1.3` of GPIO1, `GP7` of SIO.
    fn pin(&self, name: &str) -> Option<(u32, Field)> {
        let digits = name.len() - name.trim_end_matches(|digit: char| digit.is_ascii_digit()).len();
        let (port, pin) = name.split_at(name.len() - digits);
        let pin: u32 = pin.parse().ok().filter(|&pin| pin < 32)?;
        let letter = |from: &str| port.strip_prefix(from).filter(|letter| letter.len() == 1);
        let names = match port {
            "GP" | "GPIO" | "IO" => vec!["SIO".to_owned(), "GPIO".to_owned()],
            _ if port.ends_with('.') => {
                let port = port.trim_end_matches('.');
                vec![port.to_owned(), port.replacen('P', "GPIO", 1)]
            }
            _ => {
                let letter = letter("PT").or_else(|| letter("P"))?;
                ["GPIO", "PORT", "P"].map(|of| format!("{of}{letter}")).to_vec()
            }
        };
        names.iter().find_map(|name| {
            let block = self.wire.blocks.iter().position(|block| &block.name == name)?;
            let outside = &self.wire.blocks[block].pins.first()?.outside;
            let mask = outside.put_in(0, 1 << pin);
            (mask != 0).then_some((block as u32, Field { register: outside.register, mask }))
        })
    }

    /// The pin of a name, for the plugin.
    pub(super) fn pin_at(&self, name: &str) -> Option<PinAt> {
        let (block, field) = self.pin(name)?;
        let pins = self.wire.blocks[block as usize].pins.first()?;
        Some(PinAt { block, pin: pins.outside.of(field.mask).trailing_zeros() })
    }

    /// A field: `GPIOC.PIN[13]`, `ADC1.CH3`, `RCC.CR.HSERDY`.
    fn field(&self, name: &str) -> Result<(u32, Field), String> {
        let (peripheral, rest) = name.split_once('.').unwrap_or((name, ""));
        let is_it = |block: &Block| block.name == peripheral && !block.registers.is_empty();
        let found = self.wire.blocks.iter().enumerate().find(|(_, block)| is_it(block));
        let (index, block) = found.ok_or_else(|| {
            let port = self.wire.blocks.iter().find(|block| !block.pins.is_empty());
            let example = port.map(|port| format!(" (write {}.PIN[0]=1)", port.name)).unwrap_or_default();
            format!("no peripheral is called {peripheral}{example}")
        })?;
        let registers = || (0..).zip(&block.registers);
        let register = |name: &str| registers().find(|(_, register)| register.name == name);
        let field = match rest.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
            Some((name, bits)) => {
                register(name).and_then(|(at, _)| mask(bits).map(|mask| Field { register: at, mask }))
            }
            None => register(rest).map(|(at, _)| Field { register: at, mask: u32::MAX }).or_else(|| {
                let (name, field) = rest.split_once('.')?;
                let (at, register) = register(name)?;
                let fields = self.fields.get(&(block.start + register.offset?))?;
                let (_, mask) = fields.iter().find(|(name, _)| name == field)?;
                Some(Field { register: at, mask: *mask })
            }),
        };
        let field = field.ok_or_else(|| {
            format!("{peripheral} has no register or field {rest} (write CR.NAME, CR[5], CR[7:4] or CR)")
        })?;
        Ok((index as u32, field))
    }

    /// Block of a CAN controller: `CAN` is the chip's only one. None: the name is not that of one; then an error: there is none,
    /// or there are several.
    fn can(&self, name: &str) -> Option<Result<u32, String>> {
        let cans = || (0..).zip(&self.wire.blocks).filter(|(_, block)| !block.cans.is_empty());
        let found = cans().find(|(_, block)| block.name == name);
        if found.is_none() && name != CAN {
            return None;
        }
        let mut all = cans();
        let (first, next) = (all.next(), all.next());
        let only = first.filter(|_| next.is_none());
        let names = || cans().map(|(_, block)| block.name.as_str()).collect::<Vec<_>>().join(", ");
        Some(found.or(only).map(|(index, _)| index).ok_or_else(|| match next {
            Some(_) => format!("which of the CAN controllers? Write one of {}", names()),
            None => "the chip file has no CAN controller".to_owned(),
        }))
    }

    /// Block of a peripheral with a serial port that receives.
    fn port(&self, name: &str) -> Result<u32, String> {
        let receives = |block: &&Block| {
            block.ports.iter().any(|port| port.receive.is_some())
                || block.transfers.iter().any(|transfer| transfer.is_receive)
        };
        let names = || self.wire.blocks.iter().filter(receives).map(|block| block.name.as_str());
        let found = self.wire.blocks.iter().position(|block| block.name == name && receives(&block));
        let known = || names().collect::<Vec<_>>().join(", ");
        let missing = || match names().next() {
            Some(_) => format!("no serial port is called {name} ({})", known()),
            None => format!("no serial port is called {name}: the chip file has none that receives"),
        };
        found.map(|block| block as u32).ok_or_else(missing)
    }
}

/// Frames of a text, one after the other.
fn frames(text: &[u8]) -> Result<Vec<Frame>, String> {
    let text = String::from_utf8_lossy(text);
    if text.trim().is_empty() {
        return Err(format!("no frame; {FRAME}"));
    }
    let frame = |text: &str| Frame::parse(text).ok_or_else(|| format!("{text:?} is not a frame: {FRAME}"));
    text.split_whitespace().map(frame).collect()
}

/// Times in ns of a change, and of what follows it, with whether the level is the other one then.
fn edges(outside: &Outside) -> Vec<(u64, bool)> {
    let mut edges = Vec::new();
    for (start_ns, is_back) in [Some((0, false)), outside.for_ns.map(|ns| (ns, true))].into_iter().flatten() {
        edges.push((start_ns, is_back));
        let mut is_other = is_back;
        for (part, of) in BOUNCES {
            if let Some(bounce_ns) = outside.bounce_ns {
                is_other = !is_other;
                edges.push((start_ns.saturating_add(bounce_ns / of * part), is_other));
            }
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip;

    fn connected(chip: &str, text: &str) -> Result<Vec<Stimulus>, String> {
        let mut chip = chip::find(chip).unwrap();
        let hash = chip.sha256.clone();
        chip.connect(&[Input::set_at(&format!("10ms:{text}")).unwrap()]).map_err(|error| error.to_string())?;
        assert_eq!(chip.sha256, hash);
        assert_eq!(chip.wire.check(), Ok(()));
        Ok(chip.wire.stimuli)
    }

    #[test]
    fn a_pin_has_its_boards_name_on_each_chip() {
        let pins = [
            ("stm32f407", "PC13=1", "GPIOC.PIN[13]=1"),
            ("nrf52840", "P0.11=0", "P0.PIN[11]=0"),
            ("rp2040", "GP7=1", "SIO.PIN[7]=1"),
            ("atmega328p", "PB5=1", "PORTB.PIN[5]=1"),
            ("mk64f12", "PTA4=1", "GPIOA.PIN[4]=1"),
            ("imxrt1062", "GPIO1.3=1", "GPIO1.PIN[3]=1"),
        ];
        for (chip, short, long) in pins {
            let (short, long) = (connected(chip, short).unwrap(), connected(chip, long).unwrap());
            assert_eq!(short, long, "{chip}");
            assert_eq!((short.len(), short[0].at_ns, short[0].step), (1, 10_000_000, None));
        }
    }

    #[test]
    fn a_press_bounces_and_ends() {
        let all = connected("stm32f407", "PA0=0,for=20ms,bounce=8us").unwrap();
        let levels: Vec<(u64, u32)> = all.iter().map(|one| (one.at_ns - 10_000_000, one.set[0].value)).collect();
        let down = [(0, 0), (1_000, 1), (2_000, 0), (4_000, 1), (8_000, 0)];
        let up = down.map(|(ns, level)| (ns + 20_000_000, level ^ 1));
        assert_eq!(levels, [down, up].concat());
    }

    #[test]
    fn what_the_run_ended_before_is_counted() {
        let mut chip = chip::find("stm32f407").unwrap();
        let inputs = ["1M:PA0=1", "1ms:PA1=1,for=1ms", "20ms:PA2=1"].map(Input::set_at);
        let inputs = inputs.map(Result::unwrap).into_iter().chain([Input::set_after("a:PA3=1").unwrap()]);
        chip.connect(&inputs.collect::<Vec<_>>()).unwrap();
        // With 2^3 ns the million of instructions takes 8 ms.
        assert_eq!([0, 1, 2, 3, 4].map(|came| chip.missed(came, 3)), [3, 2, 2, 1, 0]);
        assert_eq!([1, 2, 3].map(|came| chip.missed(came, 5)), [2, 2, 1], "the last one comes before the first");
    }

    #[test]
    fn steps_are_counted_without_what_comes_by_the_clock() {
        let mut chip = chip::find("stm32f407").unwrap();
        let inputs = [
            Input::at("1M:x"),
            Input::set_at("1M:PA0=1"),
            Input::set_after("a:USART2<hello"),
            Input::set_after("b:ADC1.CH3=7"),
        ];
        chip.connect(&inputs.map(Result::unwrap)).unwrap();
        let steps: Vec<Option<u32>> = chip.wire.stimuli.iter().map(|one| one.step).collect();
        assert_eq!(steps, [None, Some(1), Some(2)]);
        assert_eq!(chip.wire.stimuli[1].typed, b"hello");
        let usart = &chip.wire.blocks[chip.wire.stimuli[1].block as usize];
        assert_eq!(usart.name, "USART2");
    }

    #[test]
    fn frames_come_one_after_the_other_and_the_only_controller_needs_no_number() {
        let frames = |chip: &str, text: &str| {
            let one = connected(chip, text).unwrap().remove(0);
            one.frames.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(frames("stm32f407", "CAN2<123#1122 01234567#"), ["123#1122", "01234567#"]);
        assert_eq!(frames("stm32f103", "CAN<7ff#R"), ["7FF#R"]);
        let error = connected("stm32f401", "CAN<123#").unwrap_err();
        assert!(error.contains("the chip file has no CAN controller"), "{error}");
    }

    #[test]
    fn what_the_chip_has_not_is_refused() {
        let cases = [
            ("PX0=1", "no peripheral is called PX0 (write GPIOA.PIN[0]=1)"),
            ("PA16=1", "no peripheral is called PA16"),
            ("PA0=2", "does not fit"),
            ("PA0=on", "does not fit"),
            ("GPIOA.PAN=1", "GPIOA has no register or field PAN"),
            ("GPIOA.PIN[32]=1", "GPIOA has no register or field PIN[32]"),
            ("ADC1.CH3=7,for=1ms", "only a level changes back"),
            ("USART9<x", "no serial port is called USART9 (USART"),
            ("GPIOA<x", "no serial port is called GPIOA"),
            ("CAN1<123", "\"123\" is not a frame: a frame is written as 123#1122"),
            ("CAN1< ", "no frame; a frame is written as 123#1122"),
            ("CAN<123#", "which of the CAN controllers? Write one of CAN1, CAN2"),
        ];
        for (text, wanted) in cases {
            let error = connected("stm32f407", text).unwrap_err();
            assert!(error.starts_with("input: ") && error.contains(wanted), "{text}: {error}");
        }
    }
}
