// SPDX-License-Identifier: MIT OR Apache-2.0
//! The format of a chip file. `docs/chips.md` describes it for authors.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use wire::chip::{BusDevice, FLASH_PAGE_BYTES, MAX_DEVICE_BYTES, MAX_POINTER_BYTES};

use super::spanned::Spanned;
use crate::text::number::parse_ns;

/// A text with its place in the file, for messages.
pub(super) type Text = Spanned<String>;

/// A file: a chip, kinds of peripherals, or both.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "ChipFile")]
pub struct File {
    /// The chip; a file without one has kinds only.
    pub(super) chip: Option<ChipTable>,
    #[serde(default)]
    pub(super) memory: Vec<Spanned<MemoryTable>>,
    #[serde(default)]
    pub(super) clocks: BTreeMap<String, Spanned<ClockSource>>,
    #[serde(default)]
    pub(super) peripherals: BTreeMap<String, Spanned<PeripheralTable>>,
    /// Address ranges of peripherals that the chip file does not describe.
    #[serde(default)]
    pub(super) undescribed: Vec<Spanned<UndescribedTable>>,
    #[serde(default)]
    pub(super) kind: BTreeMap<String, Spanned<KindTable>>,
    /// Answers to polling.
    #[serde(default)]
    pub(super) answer: Vec<Spanned<AnswerTable>>,
    /// Interrupts that come by themselves.
    #[serde(default)]
    pub(super) pulse: Vec<Spanned<PulseTable>>,
    /// Registers that count by themselves.
    #[serde(default)]
    pub(super) count: Vec<Spanned<CountTable>>,
    /// Changes from outside of the chip.
    #[serde(default)]
    pub(super) stimulus: Vec<Spanned<StimulusTable>>,
    /// Control and status registers that only this RISC-V processor has.
    #[serde(default)]
    pub(super) csr: BTreeMap<String, Spanned<CsrTable>>,
    /// Facts about the firmware from which the file was learned.
    pub(super) learned: Option<LearnedTable>,
}

/// An answer to firmware that polls a register: see [`wire::chip::Answer`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct AnswerTable {
    pub(super) at: u64,
    pub(super) mask: u32,
    pub(super) value: u32,
    /// Reason, for readers of the file.
    #[serde(default)]
    pub(super) why: String,
    /// Place in the firmware that polls, for readers of the file.
    #[serde(default)]
    pub(super) place: String,
    /// Instructions executed up to that place.
    #[serde(default)]
    pub(super) insn: u64,
    /// Whether the value is a guess: others would have ended the polling, too.
    #[serde(default)]
    pub(super) guess: bool,
}

/// An interrupt that comes by itself: see [`wire::chip::Pulse`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PulseTable {
    pub(super) interrupt: u32,
    pub(super) every: u64,
    /// Registers that read as all ones once the interrupt has come.
    #[serde(default)]
    pub(super) ones: Vec<u64>,
    #[serde(default)]
    pub(super) why: String,
    #[serde(default)]
    pub(super) place: String,
    #[serde(default)]
    pub(super) insn: u64,
    #[serde(default)]
    pub(super) guess: bool,
}

/// A register that counts by itself: see [`wire::chip::Count`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct CountTable {
    pub(super) at: u64,
    pub(super) every: u64,
    #[serde(default)]
    pub(super) why: String,
    #[serde(default)]
    pub(super) place: String,
    #[serde(default)]
    pub(super) insn: u64,
    #[serde(default)]
    pub(super) guess: bool,
}

/// Fields of peripherals that change at an instruction: see [`wire::chip::Stimulus`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct StimulusTable {
    /// Instructions since reset.
    pub(super) at: u64,
    /// Settings as `GPIOA.PIN[0]=1`.
    pub(super) set: Vec<Text>,
}

/// A control and status register: see [`wire::chip::Csr`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct CsrTable {
    /// Its number.
    pub(super) number: u32,
    #[serde(default)]
    pub(super) reset: u32,
    /// Whether it counts cycles.
    #[serde(default)]
    pub(super) cycles: bool,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LearnedTable {
    /// Registers that the firmware accessed.
    pub(super) seen: Vec<u64>,
    /// Facts from the SVD about these registers.
    #[serde(default)]
    pub(super) registers: Vec<Spanned<LearnedRegister>>,
}

/// A register of an undescribed address range, as an SVD describes it: see [`super::svd::Word`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LearnedRegister {
    pub(super) at: u64,
    pub(super) name: String,
    #[serde(default)]
    pub(super) reset: u32,
    #[serde(default)]
    pub(super) read_only: u32,
    #[serde(default)]
    pub(super) one_clears: u32,
    #[serde(default)]
    pub(super) zero_clears: u32,
    #[serde(default)]
    pub(super) read_clears: u32,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ChipTable {
    /// A similar chip, whose values apply where this file gives none.
    pub(super) like: Option<Text>,
    /// The processor, as `cortex-m4`.
    pub(super) cpu: Option<Text>,
    /// Core whose cycles `--cycles` counts, by the name of a built-in one.
    pub(super) core: Option<Text>,
    /// Frequency at which instructions execute, in Hz.
    pub(super) hz: Option<u64>,
    /// Number of interrupt lines.
    pub(super) interrupts: Option<Spanned<u32>>,
    /// Number of bits of an interrupt's priority.
    pub(super) priority_bits: Option<Spanned<u32>>,
    /// Clock of the processor and of SysTick.
    pub(super) cpu_clock: Option<Text>,
    /// SysTick's external clock.
    pub(super) systick_clock: Option<Text>,
    /// Address at which the processor finds its vector table after reset.
    pub(super) vectors: Option<u64>,
    /// Differences from the chip, each one sentence.
    #[serde(default)]
    pub(super) differs: Vec<String>,
    /// Peripherals of the similar chip that this chip lacks.
    #[serde(default)]
    pub(super) without: Vec<Text>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct MemoryTable {
    pub(super) name: String,
    pub(super) start: u64,
    pub(super) bytes: u64,
    #[serde(default)]
    pub(super) kind: MemoryKind,
    /// Name of the memory of which this one is an alias.
    pub(super) alias: Option<Text>,
    /// Words that the memory holds when the chip leaves the factory, each with its offset.
    #[serde(default)]
    pub(super) words: Vec<(u64, u32)>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MemoryKind {
    #[default]
    Ram,
    Flash,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct UndescribedTable {
    pub(super) name: String,
    pub(super) start: u64,
    pub(super) bytes: u64,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a clock is a frequency in hertz, or a clock's name")]
pub(super) enum ClockSource {
    Hz(u64),
    Clock(String),
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PeripheralTable {
    pub(super) at: u64,
    pub(super) kind: Text,
    /// Line of the interrupt, for a kind with one interrupt.
    pub(super) interrupt: Option<u32>,
    /// Lines, by the names of the kind's interrupts.
    #[serde(default)]
    pub(super) interrupts: BTreeMap<String, u32>,
    /// Clock of the counters for which the kind gives none.
    pub(super) clock: Option<Text>,
    /// Memory that a flash controller controls, by name.
    pub(super) flash: Option<Text>,
    /// Values at reset that differ from the kind's.
    #[serde(default)]
    pub(super) reset: BTreeMap<String, u32>,
    /// Peripherals with pins, to whose edges the kind's rules apply.
    #[serde(default)]
    pub(super) ports: Vec<Text>,
    /// Peripheral with the registers that choose among the ports; None: this one.
    pub(super) ports_by: Option<Text>,
    /// Devices on the peripheral's bus.
    #[serde(default)]
    pub(super) devices: Vec<BusDeviceTable>,
    /// Frames with which others answer those of a CAN controller.
    #[serde(default)]
    pub(super) answers: Vec<CanAnswerTable>,
    /// Peripheral with the filters of a CAN controller, if that is another one.
    pub(super) filters_by: Option<Text>,
    /// Address of each register in the data space of an AVR, where it is a byte or two.
    #[serde(default)]
    pub(super) bytes: BTreeMap<String, BytesAt>,
}

/// An answer on a CAN bus: see [`wire::can::CanAnswer`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct CanAnswerTable {
    /// Frame that is answered, with the first bytes of its data, or all: `123#01`.
    pub(super) to: Text,
    /// The answer: `321#0102`.
    pub(super) with: Text,
    /// Time from the end of that frame to the answer: `1ms`.
    pub(super) after: Option<Text>,
}

/// Addresses of a register's bytes.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a register's bytes are at one address, or at two as [LOW, HIGH]")]
pub(super) enum BytesAt {
    /// Address of its only byte.
    One(u64),
    /// Addresses of its lowest byte and the one above.
    Two([u64; 2]),
}

impl BytesAt {
    /// The addresses, the lowest byte's first.
    pub(super) fn each(&self) -> &[u64] {
        match self {
            BytesAt::One(address) => std::slice::from_ref(address),
            BytesAt::Two(addresses) => addresses,
        }
    }
}

/// A device on a bus: see [`wire::chip::BusDevice`].
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct BusDeviceTable {
    /// Name by which its bytes change from outside: `TEMP[0]=0x19`.
    pub(super) name: Option<Text>,
    /// Address, on a bus that has addresses.
    pub(super) address: u32,
    /// Pin that selects it where it is low, on a bus without addresses: `PA4`.
    pub(super) select: Option<Text>,
    /// Bytes of the device, from the first on.
    pub(super) bytes: Vec<u8>,
    /// Number of its bytes, if more than these.
    pub(super) size: u32,
    /// Value of the bytes behind these; None: 0xff.
    pub(super) fill: Option<u8>,
    /// Number of bytes, written first, that choose the next byte; None: 1 on a bus with addresses, else 0.
    pub(super) pointer_bytes: Option<u32>,
    /// Number of bytes of each register that they choose; None: 1.
    pub(super) register_bytes: Option<u32>,
    /// Number of bytes of a page of a memory.
    pub(super) page_bytes: u32,
    /// Time for which it is busy with what was written: `5ms`.
    pub(super) busy: Option<String>,
    /// Bytes by which an SPI flash identifies itself: its maker, kind and size.
    pub(super) flash: Vec<u8>,
    /// Registers of a calendar in decimal digits, in their order.
    pub(super) calendar: Vec<CalendarRegister>,
    /// Index of the calendar's first register.
    pub(super) calendar_at: u32,
    /// First day of the week; None: 1.
    pub(super) first_weekday: Option<u32>,
}

/// A register of a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CalendarRegister {
    Seconds,
    Minutes,
    Hours,
    Weekday,
    Day,
    Month,
    Year,
}

impl BusDeviceTable {
    /// The device for the plugin, without its pin.
    ///
    /// # Errors
    /// With the reason why it cannot be.
    pub(super) fn resolve(&self, has_addresses: bool) -> Result<BusDevice, String> {
        use CalendarRegister::{Day, Hours, Minutes, Month, Seconds, Weekday, Year};
        let error = |what: &str| Err(what.to_owned());
        let busy_ns = match &self.busy {
            Some(time) => parse_ns(time).ok_or_else(|| format!("has busy = {time:?}: write a time, as 5ms"))?,
            None => 0,
        };
        let order = [Seconds, Minutes, Hours, Weekday, Day, Month, Year];
        let place = |register: &CalendarRegister| {
            let at = self.calendar.iter().position(|one| one == register)?;
            self.calendar_at.checked_add(at as u32)
        };
        let calendar: Option<Vec<u32>> = order.iter().map(place).collect();
        let calendar = match (calendar, self.calendar.len()) {
            (_, 0) => Vec::new(),
            (Some(calendar), 7) => calendar,
            _ => return error("has a `calendar` without each of seconds, minutes, hours, weekday, day, month, year"),
        };
        let device = BusDevice {
            address: self.address,
            select: None,
            bytes: self.bytes.iter().map(|&byte| byte.into()).collect(),
            size: self.size,
            fill: self.fill.unwrap_or(0xff).into(),
            pointer_bytes: self.pointer_bytes.unwrap_or(u32::from(has_addresses)),
            register_bytes: self.register_bytes.unwrap_or(1),
            page_bytes: self.page_bytes,
            busy_ns,
            identity: self.flash.iter().map(|&byte| byte.into()).collect(),
            calendar,
            first_weekday: self.first_weekday.unwrap_or(1),
        };
        let all = device.all_bytes();
        let is_flash = !device.identity.is_empty();
        let rules = [
            (all > 0, "has no `bytes` and no `size`".to_owned()),
            (all <= MAX_DEVICE_BYTES, format!("has more than {} MiB", MAX_DEVICE_BYTES >> 20)),
            (has_addresses || self.address == 0, "has an `address` on a bus without addresses".to_owned()),
            (self.address < 128, "has an `address` of more than 7 bits: leave out the bit for reading".to_owned()),
            (
                has_addresses || self.pointer_bytes.unwrap_or(0) == 0 || self.select.is_some(),
                "has registers on SPI, and no `select` pin with which a transfer begins".to_owned(),
            ),
            (!is_flash || all <= 1 << 24, "is a `flash` of more than 16 MiB, which has longer addresses".to_owned()),
            (!has_addresses || self.select.is_none(), "has a `select` pin on a bus with addresses".to_owned()),
            (!has_addresses || !is_flash, "is a `flash` on a bus with addresses".to_owned()),
            (!is_flash || self.select.is_some(), "is a `flash` without its `select` pin".to_owned()),
            (
                !is_flash || all.is_multiple_of(FLASH_PAGE_BYTES),
                "is a `flash` of no whole pages of 256 bytes".to_owned(),
            ),
            (
                device.pointer_bytes <= if has_addresses { MAX_POINTER_BYTES } else { 1 },
                "has too many pointer-bytes".to_owned(),
            ),
            (device.register_bytes <= MAX_POINTER_BYTES, "has too many register-bytes".to_owned()),
            (
                device.page_bytes == 0 || all.is_multiple_of(device.page_bytes),
                "has a size that is not whole pages of page-bytes".to_owned(),
            ),
            (device.calendar.iter().all(|&at| at < all), "has fewer bytes than its `calendar`".to_owned()),
            (device.first_weekday < 2, "has a week that begins with neither 0 nor 1".to_owned()),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(device), |(_, what)| Err(what))
    }
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct KindTable {
    /// A similar kind, to which this kind adds.
    pub(super) like: Option<Text>,
    /// Size of the register block in bytes.
    pub(super) bytes: Option<u64>,
    pub(super) atomic_aliases: bool,
    /// Whether the registers only hold what is written, so that their accesses are reported as not modelled.
    pub(super) undescribed: bool,
    pub(super) registers: BTreeMap<String, Spanned<RegisterTable>>,
    pub(super) clock: BTreeMap<String, Spanned<ClockTable>>,
    pub(super) follow: Vec<FollowTable>,
    pub(super) on: Vec<TriggerTable>,
    pub(super) counter: Vec<CounterTable>,
    pub(super) port: Vec<PortTable>,
    pub(super) transfer: Vec<TransferTable>,
    pub(super) flash: Vec<FlashTable>,
    pub(super) random: Vec<Text>,
    pub(super) divider: Vec<DividerTable>,
    pub(super) watchdog: Vec<WatchdogTable>,
    pub(super) interrupt: Vec<InterruptTable>,
    pub(super) pins: Vec<PinsTable>,
    pub(super) edge: Vec<EdgeTable>,
    pub(super) channel: Vec<ChannelTable>,
    pub(super) request: Vec<RequestTable>,
    pub(super) sampler: Vec<SamplerTable>,
    pub(super) connection: Vec<ConnectionTable>,
    pub(super) bus: Vec<BusTable>,
    pub(super) array: Vec<ArrayTable>,
    pub(super) can: Vec<CanTable>,
    pub(super) filters: Option<FiltersTable>,
    /// Field to which AVR's `wdr` writes ones.
    pub(super) fed_by: Option<Text>,
}

/// Bits of a register: a number, or all.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "bits are a number with these bits set, or true for all")]
pub(super) enum Mask {
    All(bool),
    Bits(u32),
}

impl Default for Mask {
    fn default() -> Mask {
        Mask::Bits(0)
    }
}

/// A field: one bit, or its last and first bit as `7:4`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a field is the number of its bit, or its bits as \"7:4\"")]
pub(super) enum Bits {
    Bit(u32),
    Range(String),
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct RegisterTable {
    /// Offset of the register; absent for an internal one, which instructions cannot access.
    pub(super) at: Option<u64>,
    pub(super) reset: u32,
    pub(super) fields: BTreeMap<String, Bits>,
    pub(super) read_only: Mask,
    pub(super) one_clears: Mask,
    pub(super) zero_clears: Mask,
    pub(super) read_clears: Mask,
    pub(super) self_clearing: Mask,
    pub(super) write_resets: Mask,
    pub(super) sets: Option<Text>,
    pub(super) clears: Option<Text>,
    pub(super) toggles: Option<Text>,
    pub(super) upper_clears: Option<Text>,
    pub(super) reads: Option<Text>,
    pub(super) all_of: Vec<Text>,
    /// Whether an AVR reaches the second byte through a register that the peripheral has once, see
    /// [`wire::chip::Register::is_latched`].
    pub(super) latched: bool,
    /// Number of registers of this shape; their names end in their numbers.
    pub(super) count: Option<u32>,
    /// Distance between two of these registers, in bytes.
    pub(super) stride: Option<u64>,
}

impl RegisterTable {
    /// Registers of this shape, which is called `name`: number, name, and offset; an internal one has no offset.
    pub(super) fn each(&self, name: &str) -> impl Iterator<Item = (u32, String, Option<u64>)> {
        (0..self.count.unwrap_or(1)).map(move |number| {
            let own = if self.count.is_some() { format!("{name}{number}") } else { name.to_owned() };
            (number, own, self.at.map(|at| at + u64::from(number) * self.stride.unwrap_or(4)))
        })
    }
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FollowTable {
    pub(super) bits: Text,
    pub(super) of: Text,
    #[serde(default)]
    pub(super) after: u64,
    #[serde(default)]
    pub(super) inverted: bool,
    /// Whether it waits for the end of the frame on the peripheral's CAN bus.
    #[serde(default)]
    pub(super) idle: bool,
    pub(super) repeat: Option<u32>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct TriggerTable {
    pub(super) write: Option<Text>,
    pub(super) read: Option<Text>,
    pub(super) value: Option<u32>,
    /// Whether writing any value triggers the rule, even 0.
    #[serde(default)]
    pub(super) any: bool,
    #[serde(default)]
    pub(super) when: Vec<Text>,
    #[serde(default)]
    pub(super) after: u64,
    /// Fields that are copied, as `DR=CH3`.
    #[serde(default)]
    pub(super) copy: Vec<Text>,
    #[serde(default)]
    pub(super) set: Vec<Text>,
    pub(super) repeat: Option<u32>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FactorTable {
    pub(super) field: Text,
    #[serde(default)]
    pub(super) plus: u64,
    #[serde(default)]
    pub(super) map: Vec<u64>,
    #[serde(default)]
    pub(super) power_of_2: bool,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ClockTable {
    pub(super) of: Vec<Spanned<ClockSource>>,
    pub(super) select: Option<FactorTable>,
    #[serde(default)]
    pub(super) multiply: Vec<FactorTable>,
    #[serde(default)]
    pub(super) divide: Vec<FactorTable>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct CounterTable {
    pub(super) value: Option<Text>,
    pub(super) upper: Option<Text>,
    #[serde(default)]
    pub(super) running: Vec<Text>,
    pub(super) clock: Option<Spanned<ClockSource>>,
    #[serde(default)]
    pub(super) divide: Vec<FactorTable>,
    pub(super) reload: Option<Text>,
    #[serde(default = "word_bits")]
    pub(super) bits: u32,
    pub(super) width: Option<FactorTable>,
    pub(super) clear: Option<Text>,
    #[serde(default)]
    pub(super) down: bool,
    /// Field that is nonzero while it counts up and down again.
    pub(super) two_way: Option<Text>,
    #[serde(default)]
    pub(super) overflow: Vec<Text>,
    pub(super) once: Option<Text>,
    #[serde(default)]
    pub(super) compare: Vec<CompareTable>,
}

fn word_bits() -> u32 {
    32
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct CompareTable {
    pub(super) value: Text,
    pub(super) enabled: Option<Text>,
    #[serde(default)]
    pub(super) set: Vec<Text>,
    /// Whether `set` comes a tick after the value.
    #[serde(default)]
    pub(super) late: bool,
    pub(super) clears: Option<Text>,
    pub(super) stops: Option<Text>,
    pub(super) capture: Option<Text>,
    pub(super) repeat: Option<u32>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PortTable {
    pub(super) send: Option<Text>,
    #[serde(default)]
    pub(super) sending: Vec<Text>,
    pub(super) receive: Option<Text>,
    #[serde(default)]
    pub(super) received: Vec<Text>,
    #[serde(default)]
    pub(super) empty: Vec<Text>,
    #[serde(default)]
    pub(super) idle: Vec<Text>,
    #[serde(default)]
    pub(super) receiving: Vec<Text>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct TransferTable {
    pub(super) direction: Direction,
    pub(super) start: Text,
    pub(super) stop: Option<Text>,
    pub(super) pointer: Text,
    pub(super) count: Text,
    pub(super) amount: Option<Text>,
    #[serde(default)]
    pub(super) set: Vec<Text>,
    #[serde(default)]
    pub(super) stopped: Vec<Text>,
    #[serde(default)]
    pub(super) byte: Vec<Text>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Direction {
    Send,
    Receive,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FlashTable {
    /// Flash memory by name; None: the peripheral's `flash`.
    pub(super) memory: Option<Text>,
    #[serde(default)]
    pub(super) programs: Vec<Text>,
    #[serde(default)]
    pub(super) programmed: Vec<Text>,
    #[serde(default)]
    pub(super) erase: Vec<EraseTable>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct EraseTable {
    pub(super) start: Text,
    #[serde(default)]
    pub(super) by_any: bool,
    #[serde(default)]
    pub(super) when: Vec<Text>,
    pub(super) page: Option<Text>,
    pub(super) address: Option<Text>,
    #[serde(default)]
    pub(super) page_bytes: Vec<u64>,
    #[serde(default)]
    pub(super) set: Vec<Text>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct DividerTable {
    pub(super) dividend: Text,
    pub(super) divisor: Text,
    pub(super) quotient: Text,
    pub(super) remainder: Text,
    #[serde(default)]
    pub(super) signed: bool,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct WatchdogTable {
    pub(super) running: Vec<Text>,
    pub(super) clock: Option<Spanned<ClockSource>>,
    #[serde(default)]
    pub(super) divide: Vec<FactorTable>,
    pub(super) reload: Text,
    pub(super) feed: Vec<Text>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct InterruptTable {
    /// Name of the interrupt in the peripheral's `interrupts`; None: its line is the peripheral's `interrupt`.
    pub(super) name: Option<String>,
    pub(super) causes: Vec<CauseTable>,
    /// Settings applied when the processor takes the interrupt.
    #[serde(default)]
    pub(super) taken: Vec<Text>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct CauseTable {
    pub(super) status: Text,
    pub(super) enable: Option<Text>,
    #[serde(default)]
    pub(super) inverted: bool,
    pub(super) repeat: Option<u32>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PinsTable {
    pub(super) level: Text,
    pub(super) driven: Text,
    pub(super) outside: Text,
    /// Registers with the pins' modes.
    pub(super) modes: Vec<Text>,
    pub(super) mode_bits: u32,
    /// Modes of an output.
    pub(super) outputs: Vec<u32>,
    /// Pins that are pulled up where nothing outside is connected.
    pub(super) pulled: Option<Text>,
    /// Registers with the modes in which they are.
    #[serde(default)]
    pub(super) pulls: Vec<Text>,
    #[serde(default)]
    pub(super) pull_bits: u32,
    #[serde(default)]
    pub(super) pull_ups: Vec<u32>,
    /// Pins whose levels a stimulus has set.
    pub(super) connected: Option<Text>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct EdgeTable {
    /// Field with the index of the port, in the peripheral of `ports_by`.
    pub(super) port: Option<Text>,
    /// The pin's number, which may contain the number of the repetition (`{n}`), or a field with the pin's number.
    pub(super) pin: Text,
    #[serde(default)]
    pub(super) when: Vec<Text>,
    pub(super) rising: Text,
    pub(super) falling: Text,
    pub(super) set: Vec<Text>,
    pub(super) repeat: Option<u32>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ChannelTable {
    pub(super) running: Vec<Text>,
    pub(super) count: Text,
    pub(super) from: ChannelEndTable,
    pub(super) to: ChannelEndTable,
    #[serde(default)]
    pub(super) reversed: Vec<Text>,
    #[serde(default)]
    pub(super) free: Vec<Text>,
    pub(super) circular: Option<Text>,
    #[serde(default)]
    pub(super) half: Vec<Text>,
    #[serde(default)]
    pub(super) set: Vec<Text>,
    #[serde(default)]
    pub(super) failed: Vec<Text>,
    pub(super) chain: Option<Text>,
    #[serde(default)]
    pub(super) begin: Vec<Text>,
    #[serde(default)]
    pub(super) advances: bool,
    pub(super) repeat: Option<u32>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SamplerTable {
    pub(super) start: Text,
    pub(super) running: Vec<Text>,
    pub(super) selects: Vec<Text>,
    pub(super) inputs: Vec<Text>,
    pub(super) pointer: Text,
    pub(super) count: Text,
    pub(super) amount: Text,
    #[serde(default)]
    pub(super) done: Vec<Text>,
    #[serde(default)]
    pub(super) full: Vec<Text>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ConnectionTable {
    pub(super) enabled: Text,
    pub(super) event: Text,
    pub(super) tasks: Vec<Text>,
    pub(super) repeat: Option<u32>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ChannelEndTable {
    pub(super) address: Text,
    pub(super) item: FactorTable,
    pub(super) steps: Text,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RequestTable {
    pub(super) read: Option<Text>,
    pub(super) write: Option<Text>,
    pub(super) when: Vec<Text>,
}

/// A memory that registers reach one byte at a time.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ArrayTable {
    pub(super) bytes: Spanned<u32>,
    /// Value of each byte at reset.
    #[serde(default)]
    pub(super) reset: u8,
    /// Address that the first byte has in a firmware file, whose bytes for it are the contents at reset.
    pub(super) in_file: Option<u64>,
    pub(super) address: Text,
    pub(super) value: Text,
    pub(super) read: Option<Text>,
    pub(super) write: Option<Text>,
    pub(super) program: Option<Text>,
    pub(super) erase: Option<Text>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct BusTable {
    #[serde(default)]
    pub(super) when: Vec<Text>,
    pub(super) send: Text,
    pub(super) receive: Text,
    pub(super) address: Option<Text>,
    pub(super) begin: Option<Text>,
    pub(super) count: Option<Text>,
    pub(super) reload: Option<Text>,
    #[serde(default)]
    pub(super) addresses: Vec<Text>,
    pub(super) reads: Option<Text>,
    #[serde(default)]
    pub(super) writing: Vec<Text>,
    #[serde(default)]
    pub(super) reading: Vec<Text>,
    #[serde(default)]
    pub(super) absent: Vec<Text>,
    #[serde(default)]
    pub(super) wanted: Vec<Text>,
    #[serde(default)]
    pub(super) offered: Vec<Text>,
    #[serde(default)]
    pub(super) ends: Vec<BusEndTable>,
}

/// Settings that are applied at the end of a counted transfer where others hold.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct BusEndTable {
    #[serde(default)]
    pub(super) when: Vec<Text>,
    pub(super) set: Vec<Text>,
}

/// A CAN controller: see [`wire::can::Can`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct CanTable {
    #[serde(default)]
    pub(super) when: Vec<Text>,
    #[serde(default)]
    pub(super) loops: Vec<Text>,
    #[serde(default)]
    pub(super) silent: Vec<Text>,
    #[serde(default)]
    pub(super) in_order: Vec<Text>,
    pub(super) resets: Option<Text>,
    #[serde(default)]
    pub(super) asleep: Vec<Text>,
    #[serde(default)]
    pub(super) woken: Vec<Text>,
    #[serde(default)]
    pub(super) received: Vec<Text>,
    pub(super) clock: Option<Spanned<ClockSource>>,
    #[serde(default)]
    pub(super) divide: Vec<FactorTable>,
    #[serde(default)]
    pub(super) segments: Vec<FactorTable>,
    pub(super) free: Option<Text>,
    #[serde(default)]
    pub(super) mailbox: Vec<MailboxTable>,
    #[serde(default)]
    pub(super) queue: Vec<QueueTable>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FrameTable {
    pub(super) standard: Text,
    pub(super) extended: Text,
    pub(super) is_extended: Text,
    pub(super) remote: Text,
    pub(super) length: Text,
    pub(super) data: Vec<Text>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct MailboxTable {
    pub(super) request: Text,
    pub(super) frame: FrameTable,
    #[serde(default)]
    pub(super) begin: Vec<Text>,
    #[serde(default)]
    pub(super) sent: Vec<Text>,
    pub(super) abort: Option<Text>,
    #[serde(default)]
    pub(super) aborted: Vec<Text>,
    pub(super) last: Option<Text>,
    pub(super) repeat: Option<u32>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct QueueTable {
    pub(super) frame: FrameTable,
    pub(super) filter: Option<Text>,
    pub(super) level: Text,
    pub(super) depth: u32,
    pub(super) release: Text,
    #[serde(default)]
    pub(super) full: Vec<Text>,
    #[serde(default)]
    pub(super) keeps: Vec<Text>,
    #[serde(default)]
    pub(super) lost: Vec<Text>,
    pub(super) repeat: Option<u32>,
}

/// Filters of a CAN controller: see [`wire::can::Filters`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FiltersTable {
    #[serde(default)]
    pub(super) off: Vec<Text>,
    pub(super) banks: u32,
    pub(super) active: Text,
    pub(super) list: Text,
    pub(super) wide: Text,
    pub(super) queue: Text,
    pub(super) words: Text,
    pub(super) split: Option<Text>,
}
