//! FreeRTOS in an image: which variable names the running task, and where a task's control block keeps its
//! name and stack. Variables and functions are found by their symbols, the layout through DWARF; nothing
//! about it is built in.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::Range;

use addr2line::gimli::{self, AttributeValue, DwTag, EndianSlice, LittleEndian, SectionId, UnitOffset};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Unit<'a> = gimli::Unit<Slice<'a>>;

/// FreeRTOS as found in an image. Addresses include the load bias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Address of `pxCurrentTCB`, or of the first element of `pxCurrentTCBs`.
    pub current: u64,
    /// Elements there: 1, or the cores of an SMP kernel.
    pub cores: u32,
    /// Size of a pointer.
    pub pointer_bytes: u32,
    /// `xSchedulerRunning`.
    pub running: Option<Variable>,
    /// Addresses of the variables that hold the idle tasks.
    pub idle: Vec<u64>,
    /// The control block; None without DWARF, and then tasks have no names.
    pub layout: Option<Layout>,
    /// Code that may store to `pxCurrentTCB` or `xSchedulerRunning`, sorted, disjoint.
    pub switchers: Vec<Range<u64>>,
    /// First instruction of `vTaskDelete`.
    pub delete: Option<u64>,
}

/// A variable of the firmware's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its address.
    pub address: u64,
    /// Its size.
    pub bytes: u32,
}

/// Byte offsets in a control block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// `pcTaskName`.
    pub name: Range<u64>,
    /// `pxStack`, the stack's lowest address.
    pub stack: u64,
    /// `pxEndOfStack`, its highest, where the build has it (configRECORD_STACK_HIGH_ADDRESS).
    pub stack_end: Option<u64>,
}

/// Functions of tasks.c that store to the two variables, in V10 and V11: the scheduler's choice
/// (taskSELECT_HIGHEST_PRIORITY_TASK is a macro in the first, a function on SMP kernels), what makes a new
/// task the running one before the scheduler starts, and the scheduler's start and end. The third line
/// is where compilers inline prvAddNewTaskToReadyList without telling.
const SWITCHERS: [&str; 16] = [
    "vTaskSwitchContext",
    "prvSelectHighestPriorityTask",
    "vTaskSuspend",
    "vTaskResetState",
    "prvAddNewTaskToReadyList",
    "prvCreateIdleTasks",
    "vTaskStartScheduler",
    "vTaskEndScheduler",
    "xTaskCreate",
    "xTaskCreateStatic",
    "xTaskCreateRestricted",
    "xTaskCreateRestrictedStatic",
    "xTaskCreateAffinitySet",
    "xTaskCreateStaticAffinitySet",
    "prvCreateTask",
    "prvCreateStaticTask",
];

/// Most characters of a task's name that are believed.
const MAX_NAME_BYTES: u64 = 256;

/// Types that are followed from a variable to its structure.
const MAX_HOPS: usize = 16;

/// Looks for FreeRTOS; `elf` is the file with the symbols. Also says what could not be read.
pub fn find(elf: Option<&[u8]>, load_bias: u64, arm: bool) -> (Option<Kernel>, Vec<String>) {
    let Some(file) = elf.and_then(|bytes| object::File::parse(bytes).ok()) else { return (None, Vec::new()) };
    let symbols: Vec<Symbol<'_>> = file.symbols().filter_map(|symbol| Symbol::of(&symbol, load_bias, arm)).collect();
    let variable = |name: &str| symbols.iter().find(|symbol| symbol.name == name && !symbol.is_code);
    let pointer_bytes = if file.is_64() { 8 } else { 4 };
    let (current, cores) = match (variable("pxCurrentTCB"), variable("pxCurrentTCBs")) {
        (Some(one), _) => (one.address, 1),
        (None, Some(array)) => (array.address, (array.bytes / u64::from(pointer_bytes)).clamp(1, 64) as u32),
        (None, None) => return (None, Vec::new()),
    };
    let mut warnings = Vec::new();
    let mut inlined = BTreeSet::new();
    let layout = match dwarf(&file).and_then(|sections| {
        let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
        search(&dwarf, &mut inlined)
    }) {
        Ok(layout) => layout,
        Err(error) => {
            warnings.push(format!(
                "the debug information of the FreeRTOS kernel cannot be read ({error}): tasks have no names"
            ));
            None
        }
    };
    let layout = layout.filter(|layout| {
        let plausible = layout.is_plausible(u64::from(pointer_bytes));
        if !plausible {
            warnings.push(
                "the debug information of the FreeRTOS kernel's control block makes no sense: tasks have no names"
                    .to_owned(),
            );
        }
        plausible
    });
    let inlined = inlined.into_iter().map(|address: u64| address.wrapping_add(load_bias));
    let inlined: BTreeSet<u64> = inlined.map(|address| if arm { address & !1 } else { address }).collect();
    let switches = |symbol: &&Symbol<'_>| {
        symbol.is_code && (SWITCHERS.contains(&symbol.name) || inlined.range(symbol.range()).next().is_some())
    };
    let mut switchers: Vec<Range<u64>> = symbols.iter().filter(switches).map(Symbol::range).collect();
    switchers.sort_by_key(|range| (range.start, range.end));
    switchers.dedup_by(|next, range| {
        let overlaps = next.start < range.end;
        if overlaps {
            range.end = range.end.max(next.end);
        }
        overlaps
    });
    let mut idle = Vec::new();
    if let Some(one) = variable("xIdleTaskHandle") {
        idle.push(one.address);
    }
    if let Some(array) = variable("xIdleTaskHandles") {
        idle.extend(
            (0..array.bytes / u64::from(pointer_bytes)).map(|n| array.address + n * u64::from(pointer_bytes)),
        );
    }
    let kernel = Kernel {
        current,
        cores,
        pointer_bytes,
        running: variable("xSchedulerRunning")
            .filter(|symbol| (1..=8).contains(&symbol.bytes))
            .map(|symbol| Variable { address: symbol.address, bytes: symbol.bytes as u32 }),
        idle,
        layout,
        switchers,
        delete: symbols
            .iter()
            .find(|symbol| symbol.is_code && symbol.name == "vTaskDelete")
            .map(|symbol| symbol.address),
    };
    (Some(kernel), warnings)
}

impl Layout {
    fn is_plausible(&self, pointer_bytes: u64) -> bool {
        let pointers = [Some(self.stack), self.stack_end].into_iter().flatten();
        (1..=MAX_NAME_BYTES).contains(&(self.name.end - self.name.start))
            && pointers.into_iter().all(|offset| offset % pointer_bytes == 0 && offset >= pointer_bytes)
    }
}

/// A named piece of the image.
struct Symbol<'a> {
    /// Without what compilers append to clones: `.constprop.0`, `.lto_priv.0`.
    name: &'a str,
    address: u64,
    bytes: u64,
    is_code: bool,
}

impl<'a> Symbol<'a> {
    fn of(symbol: &object::Symbol<'a, '_>, load_bias: u64, arm: bool) -> Option<Symbol<'a>> {
        let is_code = match symbol.kind() {
            SymbolKind::Text => true,
            SymbolKind::Data => false,
            _ => return None,
        };
        if symbol.is_undefined() {
            return None;
        }
        let name = symbol.name().ok()?.split('.').next()?;
        let address = if is_code && arm { symbol.address() & !1 } else { symbol.address() };
        Some(Symbol { name, address: address.wrapping_add(load_bias), bytes: symbol.size(), is_code })
    }

    fn range(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.bytes)
    }
}

/// The debug sections, decompressed where they were compressed.
fn dwarf<'data>(file: &object::File<'data>) -> gimli::Result<gimli::DwarfSections<std::borrow::Cow<'data, [u8]>>> {
    let load = |id: SectionId| -> Result<_, Infallible> {
        let section = file.section_by_name(id.name());
        Ok(section.and_then(|section| section.uncompressed_data().ok()).unwrap_or_default())
    };
    let Ok(sections) = gimli::DwarfSections::load(load);
    Ok(sections)
}

/// Finds the control block's layout, and adds the starts of the functions into which a switcher was inlined.
fn search(dwarf: &gimli::Dwarf<Slice<'_>>, inlined: &mut BTreeSet<u64>) -> gimli::Result<Option<Layout>> {
    let mut layout = None;
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let unit = dwarf.unit(header)?;
        let mut function = None;
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            match entry.tag() {
                gimli::DW_TAG_variable if layout.is_none() => {
                    if matches!(name(dwarf, &unit, entry)?, Some("pxCurrentTCB" | "pxCurrentTCBs")) {
                        layout =
                            structure(&unit, entry)?.map(|at| layout_at(dwarf, &unit, at)).transpose()?.flatten();
                    }
                }
                gimli::DW_TAG_subprogram => {
                    let low_pc = entry.attr_value(gimli::DW_AT_low_pc);
                    function = low_pc.map(|value| dwarf.attr_address(&unit, value)).transpose()?.flatten();
                }
                gimli::DW_TAG_inlined_subroutine => {
                    if let (Some(function), Some(AttributeValue::UnitRef(origin))) =
                        (function, entry.attr_value(gimli::DW_AT_abstract_origin))
                        && name(dwarf, &unit, &unit.entry(origin)?)?.is_some_and(|name| SWITCHERS.contains(&name))
                    {
                        inlined.insert(function);
                    }
                }
                _ => {}
            }
        }
    }
    Ok(layout)
}

type Entry<'a> = gimli::DebuggingInformationEntry<Slice<'a>>;

fn name<'a>(dwarf: &gimli::Dwarf<Slice<'a>>, unit: &Unit<'a>, entry: &Entry<'a>) -> gimli::Result<Option<&'a str>> {
    let Some(value) = entry.attr_value(gimli::DW_AT_name) else { return Ok(None) };
    Ok(std::str::from_utf8(dwarf.attr_string(unit, value)?.slice()).ok())
}

/// The type of a variable, member or type, in the same unit.
fn type_of(unit: &Unit<'_>, entry: &Entry<'_>) -> Option<UnitOffset> {
    match entry.attr_value(gimli::DW_AT_type)? {
        AttributeValue::UnitRef(offset) => Some(offset),
        AttributeValue::DebugInfoRef(offset) => offset.to_unit_offset(&unit.header),
        _ => None,
    }
}

/// The complete structure that a variable points to, through any typedefs, qualifiers and arrays.
fn structure(unit: &Unit<'_>, variable: &Entry<'_>) -> gimli::Result<Option<UnitOffset>> {
    let mut at = type_of(unit, variable);
    for _ in 0..MAX_HOPS {
        let Some(offset) = at else { return Ok(None) };
        let entry = unit.entry(offset)?;
        if entry.tag() == gimli::DW_TAG_structure_type {
            return Ok(entry.has_children().then_some(offset));
        }
        at = type_of(unit, &entry);
    }
    Ok(None)
}

/// Reads the members of a structure.
fn layout_at(dwarf: &gimli::Dwarf<Slice<'_>>, unit: &Unit<'_>, at: UnitOffset) -> gimli::Result<Option<Layout>> {
    let (mut task_name, mut stack, mut stack_end) = (None, None, None);
    let mut tree = unit.entries_tree(Some(at))?;
    let mut members = tree.root()?.children();
    while let Some(member) = members.next()? {
        let entry = member.entry();
        if entry.tag() != gimli::DW_TAG_member {
            continue;
        }
        let offset = entry.attr_value(gimli::DW_AT_data_member_location);
        let Some(offset) = offset.and_then(|value| value.udata_value()) else { continue };
        match name(dwarf, unit, entry)? {
            Some("pcTaskName") => {
                let length = type_of(unit, entry).map(|array| elements(unit, array)).transpose()?.flatten();
                task_name = length.and_then(|length| Some(offset..offset.checked_add(length)?));
            }
            Some("pxStack") => stack = Some(offset),
            Some("pxEndOfStack") => stack_end = Some(offset),
            _ => {}
        }
    }
    Ok(task_name.zip(stack).map(|(name, stack)| Layout { name, stack, stack_end }))
}

/// How many elements an array type has.
fn elements(unit: &Unit<'_>, array: UnitOffset) -> gimli::Result<Option<u64>> {
    const RANGE: DwTag = gimli::DW_TAG_subrange_type;
    let mut tree = unit.entries_tree(Some(array))?;
    let mut children = tree.root()?.children();
    while let Some(child) = children.next()? {
        let entry = child.entry();
        if entry.tag() == RANGE {
            let number = |at| entry.attr_value(at).and_then(|value| value.udata_value());
            let last = number(gimli::DW_AT_upper_bound).and_then(|last| last.checked_add(1));
            return Ok(number(gimli::DW_AT_count).or(last));
        }
    }
    Ok(None)
}
