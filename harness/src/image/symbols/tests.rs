// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hand-made symbol tables; `harness/tests/image/symbols.rs` reads those of real images.

use super::*;

const FUNC: u8 = 2;
const OBJECT: u8 = 1;
const NOTYPE: u8 = 0;
const LOCAL: u8 = 0;
const GLOBAL: u8 = 1;
const WEAK: u8 = 2;

/// Symbol: name, address, size, type, binding; in `.data` if the address is in its range, otherwise in `.text`.
type Sym<'a> = (&'a str, u32, u32, u8, u8);

const TEXT: Range<u32> = 0x100..0x200;
const DATA: Range<u32> = 0x2000..0x2100;

/// Makes a 32-bit Arm ELF file with these symbols and nothing else.
fn elf(symbols: &[Sym<'_>]) -> Vec<u8> {
    elf_with(SYMTAB, symbols)
}

/// Section types of symbol tables: the full table, and the dynamic table, which a stripped image keeps because other
/// sections refer to it.
const SYMTAB: u32 = 2;
const DYNSYM: u32 = 11;

fn elf_with(table: u32, symbols: &[Sym<'_>]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let section_names = b"\0.text\0.data\0.symtab\0.strtab\0".to_vec();
    let mut strings = vec![0];
    let mut symtab = vec![0; 16];
    for &(name, address, size, kind, binding) in symbols {
        symtab.extend(words(&[strings.len() as u32, address, size]));
        symtab.extend([binding << 4 | kind, 0, if DATA.contains(&address) { 2 } else { 1 }, 0]);
        strings.extend(name.bytes());
        strings.push(0);
    }
    let mut elf = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x28\0\x01\0\0\0".to_vec();
    let contents = [section_names, symtab, strings];
    let mut offsets = vec![52];
    for bytes in &contents {
        offsets.push(offsets[offsets.len() - 1] + bytes.len() as u32);
    }
    elf.extend(words(&[0, 0, offsets[3], 0x0500_0000]));
    elf.extend([52, 0, 0, 0, 0, 0, 40, 0, 6, 0, 5, 0]);
    contents.iter().for_each(|bytes| elf.extend(bytes));
    // Name, type, flags, address, offset, size, link, info, alignment, entry size.
    for header in [
        [0; 10],
        [1, 1, 6, TEXT.start, 0, TEXT.end - TEXT.start, 0, 0, 2, 0],
        [7, 1, 3, DATA.start, 0, DATA.end - DATA.start, 0, 0, 2, 0],
        [13, table, 0, 0, offsets[1], contents[1].len() as u32, 4, 1, 4, 16],
        [21, 3, 0, 0, offsets[2], contents[2].len() as u32, 0, 0, 1, 0],
        [21, 3, 0, 0, offsets[0], contents[0].len() as u32, 0, 0, 1, 0],
    ] {
        elf.extend(words(&header));
    }
    elf
}

fn ranges(elf: &[u8]) -> Vec<(String, u64, u64)> {
    let symbols = Symbols::new(Some(elf), 0, true);
    let functions = symbols.functions.iter();
    functions.map(|function| (function.name.to_string(), function.range.start, function.range.end)).collect()
}

fn assert_ranges(symbols: &[Sym<'_>], expected: &[(&str, u64, u64)]) {
    let expected: Vec<_> = expected.iter().map(|&(name, start, end)| (name.to_owned(), start, end)).collect();
    assert_eq!(ranges(&elf(symbols)), expected);
}

#[test]
fn thumb_addresses_lose_bit_0() {
    assert_ranges(
        &[("second", 0x111, 0x10, FUNC, GLOBAL), ("first", 0x101, 0x10, FUNC, GLOBAL)],
        &[("first", 0x100, 0x110), ("second", 0x110, 0x120)],
    );
    let elf = elf(&[("first", 0x101, 0x10, FUNC, GLOBAL)]);
    assert!(Symbols::new(Some(&elf), 0, true).ranges().into_iter().eq(std::iter::once(0x100..0x110)));
    assert!(Symbols::new(Some(&elf), 0, false).ranges().into_iter().eq(std::iter::once(0x101..0x111)));
}

#[test]
fn the_load_bias_moves_everything() {
    let elf = elf(&[("main", 0x101, 0x10, FUNC, GLOBAL)]);
    let symbols = Symbols::new(Some(&elf), 0x8000_0000, true);
    assert!(symbols.ranges().into_iter().eq(std::iter::once(0x8000_0100..0x8000_0110)));
    let (names, _) = symbols.names(&[0x100, 0x8000_0102]);
    assert_eq!((names.functions[0].start, names.functions[0].size_bytes), (0x8000_0100, 0x10));
    assert!(names.frames_at(0x100).is_empty());
    assert_eq!(names.strings[names.frames_at(0x8000_0102)[0].function as usize], "main");
}

#[test]
fn mapping_symbols_and_assembler_labels_are_no_functions() {
    assert_ranges(
        &[
            ("$t", 0x100, 0, NOTYPE, LOCAL),
            ("$d.12", 0x140, 0, NOTYPE, LOCAL),
            ("$xrv64i2p1_m2p0", 0x100, 0, NOTYPE, LOCAL),
            (".L12", 0x104, 0, NOTYPE, LOCAL),
            (".L0 ", 0x106, 0, NOTYPE, LOCAL),
            ("$tart", 0x100, 0x10, FUNC, GLOBAL),
        ],
        &[("$tart", 0x100, 0x110)],
    );
}

#[test]
fn labels_left_over_in_a_stripped_image_name_nothing() {
    let label = ("__bss_start", 0x110, 0, NOTYPE, GLOBAL);
    let symbols = [label, ("exported", 0x141, 0x10, FUNC, GLOBAL), ("_handler", 0x180, 8, NOTYPE, GLOBAL)];
    let kept = [("exported".to_owned(), 0x140, 0x150), ("_handler".to_owned(), 0x180, 0x188)];
    assert_eq!(ranges(&elf_with(DYNSYM, &symbols)), kept);
    // With the full table a label's extent is known: it ends at the next one.
    assert_eq!(ranges(&elf(&symbols))[0], ("__bss_start".to_owned(), 0x110, 0x140));
}

#[test]
fn a_function_without_a_size_reaches_to_the_next_symbol_or_the_end() {
    assert_ranges(
        &[
            ("reset", 0x101, 0, FUNC, GLOBAL),
            ("inner", 0x108, 0, NOTYPE, LOCAL),
            ("table", 0x120, 0x10, OBJECT, LOCAL),
            ("last", 0x1f1, 0, FUNC, GLOBAL),
        ],
        &[("reset", 0x100, 0x120), ("last", 0x1f0, 0x200)],
    );
}

#[test]
fn a_size_beyond_the_section_ends_with_it() {
    assert_ranges(&[("main", 0x101, u32::MAX, FUNC, GLOBAL)], &[("main", 0x100, 0x200)]);
}

#[test]
fn untyped_labels_are_functions_where_no_function_is() {
    assert_ranges(
        &[
            ("_start", 0x100, 0, NOTYPE, GLOBAL),
            ("clear_bss", 0x108, 0, NOTYPE, LOCAL),
            ("trap_vector", 0x110, 0, NOTYPE, GLOBAL),
            ("main", 0x121, 0x20, FUNC, GLOBAL),
            ("loop_in_main", 0x130, 0, NOTYPE, GLOBAL),
            ("alone", 0x150, 0, NOTYPE, LOCAL),
            ("_etext", 0x200, 0, NOTYPE, GLOBAL),
            ("__bss_start", 0x2004, 0, NOTYPE, GLOBAL),
        ],
        &[
            ("_start", 0x100, 0x110),
            ("trap_vector", 0x110, 0x121 - 1),
            ("main", 0x120, 0x140),
            ("alone", 0x150, 0x200),
        ],
    );
}

#[test]
fn untyped_labels_on_data_are_no_functions() {
    assert_ranges(
        &[
            ("$d", 0x100, 0, NOTYPE, LOCAL),
            ("vectors", 0x100, 0, NOTYPE, GLOBAL),
            ("$t", 0x140, 0, NOTYPE, LOCAL),
            ("_start", 0x140, 0, NOTYPE, GLOBAL),
        ],
        &[("_start", 0x140, 0x200)],
    );
}

#[test]
fn of_aliases_the_best_known_names_the_function() {
    assert_ranges(
        &[
            ("a_local", 0x101, 0x10, FUNC, LOCAL),
            ("a_weak", 0x101, 0x10, FUNC, WEAK),
            ("z_global", 0x101, 0x10, FUNC, GLOBAL),
            ("a_longer_global", 0x101, 0x10, FUNC, GLOBAL),
            ("b_global", 0x101, 0, FUNC, GLOBAL),
            ("a", 0x100, 0, NOTYPE, GLOBAL),
        ],
        &[("b_global", 0x100, 0x110)],
    );
}

#[test]
fn functions_never_overlap() {
    assert_ranges(
        &[
            ("outer", 0x101, 0x80, FUNC, GLOBAL),
            ("inner", 0x121, 0x10, FUNC, GLOBAL),
            ("label", 0x111, 0, FUNC, LOCAL),
            ("across", 0x171, 0x20, FUNC, LOCAL),
        ],
        &[("outer", 0x100, 0x120), ("inner", 0x120, 0x170), ("across", 0x170, 0x190)],
    );
}

#[test]
fn names_are_demangled_and_hashes_removed() {
    for (linkage_name, name) in [
        ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
        ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
        ("_ZNK8firmware7drivers11Thermometer4readEi", "firmware::drivers::Thermometer::read(int) const"),
        ("_ZN3spi4foldIjEET_S1_", "spi::fold<unsigned int>(unsigned int)"),
        ("_ZThn4_N1A1fEv", "{virtual override thunk({offset(-4)}, A::f())}"),
        ("main", "main"),
        ("RCC_Init", "RCC_Init"),
        ("_Reset", "_Reset"),
        ("_Znonsense", "_Znonsense"),
        ("xTaskIncrementTick.part.0", "xTaskIncrementTick.part.0"),
    ] {
        assert_eq!(demangle(linkage_name), name);
    }
}

#[test]
fn without_symbols_nothing_has_a_name_and_somebody_says_why() {
    for (elf, reason) in [
        (None, "no ELF file"),
        (Some(elf(&[])), "stripped?"),
        (Some(b"\x7fELF\x01\x01\x01garbage".to_vec()), "cannot be read"),
        (Some(Vec::new()), "cannot be read"),
    ] {
        let symbols = Symbols::new(elf.as_deref(), 0, true);
        assert_eq!(symbols.ranges(), []);
        let (names, warnings) = symbols.names(&[0x100]);
        assert_eq!(names, Names::default());
        assert!(warnings.len() == 1 && warnings[0].contains(reason), "{warnings:?}");
        assert!(matches!(symbols.find("main"), Err(NotFound::NoSymbols { .. })));
    }
}

#[test]
fn without_symbols_an_address_of_the_image_is_a_functions_first_instruction() {
    let stripped = elf(&[]);
    let mut symbols = Symbols::new(Some(&stripped), 0, true);
    symbols.place(vec![0x100..0x140, 0x140..0x180]);
    for (typed, address) in [("0x100", 0x100), ("0x11d", 0x11c), ("0x17e", 0x17e)] {
        let found = symbols.find(typed).unwrap();
        assert_eq!((found.len(), found[0].address), (1, address), "{typed}");
        assert_eq!(found[0].name, format!("{address:#010x}"));
    }
    for typed in ["0xfe", "0x180", "0xnonsense"] {
        let error = symbols.find(typed).unwrap_err().to_string();
        assert!(error.starts_with(&format!("no function is at {typed}: the image has no symbols, ")), "{error}");
    }
    // If functions have names, an address outside of all is a mistake.
    let named = cpp();
    let mut symbols = Symbols::new(Some(&named), 0, true);
    symbols.place(vec![0x100..0x200, 0x200..0x400]);
    assert_eq!(symbols.find("0x300"), Err(NotFound::NoCode { wanted: "0x300".to_owned() }));
}

#[test]
fn damaged_files_never_panic() {
    let good = elf(&[("main", 0x101, 0x10, FUNC, GLOBAL), ("_ZN1a1bEv", 0x111, 0, FUNC, LOCAL)]);
    for at in 0..good.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bad = good.clone();
            bad[at] = value;
            let symbols = Symbols::new(Some(&bad), 0, true);
            let _ = symbols.names(&[0x100, 0x110]);
            let _ = symbols.find("mein");
        }
        let symbols = Symbols::new(Some(&good[..at]), u64::MAX, true);
        let _ = symbols.names(&[0x100, u64::MAX]);
    }
}

fn cpp() -> Vec<u8> {
    elf(&[
        ("main", 0x101, 4, FUNC, GLOBAL),
        ("_ZN4uart4initEv", 0x105, 4, FUNC, GLOBAL),
        ("_ZN3spi4initEi", 0x109, 4, FUNC, GLOBAL),
        ("_ZNK3spi4sendEPKc", 0x10d, 4, FUNC, GLOBAL),
        ("_ZN3spi4foldIjEET_S1_", 0x111, 4, FUNC, WEAK),
        ("local", 0x115, 4, FUNC, LOCAL),
        ("local", 0x119, 4, FUNC, LOCAL),
        ("Default_Handler", 0x11d, 4, FUNC, GLOBAL),
        ("SysTick_Handler", 0x11d, 4, FUNC, WEAK),
        ("vTaskDelay", 0x121, 4, FUNC, GLOBAL),
        ("vTaskDelete", 0x125, 4, FUNC, GLOBAL),
    ])
}

#[test]
fn functions_are_found_by_what_people_type() {
    let elf = cpp();
    let symbols = Symbols::new(Some(&elf), 0, true);
    for (typed, address) in [
        ("main", 0x100),
        (" main ", 0x100),
        ("_ZN4uart4initEv", 0x104),
        ("uart::init()", 0x104),
        ("uart::init", 0x104),
        ("spi::init(int)", 0x108),
        ("send", 0x10c),
        ("spi::send", 0x10c),
        ("spi::send(char const*) const", 0x10c),
        ("spi::send(charconst*)const", 0x10c),
        ("fold", 0x110),
        ("spi::fold<unsigned int>", 0x110),
        ("unsigned int spi::fold<unsigned int>(unsigned int)", 0x110),
        ("SysTick_Handler", 0x11c),
        ("0x104", 0x104),
        ("0x105", 0x104),
    ] {
        assert_eq!(symbols.find(typed).map(|found| found[0].address), Ok(address), "{typed}");
    }
}

#[test]
fn what_is_not_found_is_answered_with_what_is_there() {
    let elf = cpp();
    let symbols = Symbols::new(Some(&elf), 0, true);
    let error = |typed: &str| symbols.find(typed).unwrap_err().to_string();
    assert!(error("vTaskDelya").contains("did you mean `vTaskDelay`"), "{}", error("vTaskDelya"));
    assert!(error("maim").contains("did you mean `main`?"), "{}", error("maim"));
    assert!(error("vtask").contains("vTaskDelay`, `vTaskDelete`"), "{}", error("vtask"));
    assert!(error("nothing_like_it").contains("none has a similar name"));
    assert!(error("0x300").contains("no function is at 0x300"));
    assert!(error("0xnonsense").contains("no function is at 0xnonsense"));
    assert!(error("").contains("no function is called"));
    let ambiguous = error("init");
    assert!(
        ambiguous.contains("names 2 functions") && ambiguous.contains("#1  0x00000104  uart::init()"),
        "{ambiguous}"
    );
    assert!(error("local").contains("0x00000118  local"), "{}", error("local"));
}

/// Symbols as rustc 1.96 mangles them: a generic function with three instances, methods of three types, one method
/// that occurs twice, two `impl`s of one type, an alias, and tasks' bodies.
fn rust() -> Vec<u8> {
    elf(&[
        (
            "_RINvCsbPuHFK9Csyf_5hello12generic_sortTtaEINtNtCs8cpljGkdL56_4core3cmp7ReversetENCNvB2_5sortss1_0EB2_",
            0x101,
            4,
            FUNC,
            LOCAL,
        ),
        ("_RINvCsbPuHFK9Csyf_5hello12generic_sortmmNCNvB2_5sortss0_0EB2_", 0x105, 4, FUNC, LOCAL),
        ("_RINvCsbPuHFK9Csyf_5hello12generic_sortmmNCNvB2_5sortss2_0EB2_", 0x109, 4, FUNC, LOCAL),
        ("_RNvXCsbPuHFK9Csyf_5helloNtB2_6SquareNtB2_5Shape4area", 0x10d, 4, FUNC, LOCAL),
        ("_RNvXs0_CsbPuHFK9Csyf_5helloNtB5_5GroupNtB5_5Shape4area", 0x111, 4, FUNC, LOCAL),
        (
            "_RNvXsZ_NtCs9wkKbgSYVEN_5alloc6stringNtB5_6StringNtNtCs8cpljGkdL56_4core3fmt5Write9write_str",
            0x115,
            4,
            FUNC,
            LOCAL,
        ),
        (
            "_RNvXsZ_NtCs9wkKbgSYVEN_5alloc6stringNtB5_6StringNtNtCs8cpljGkdL56_4core3fmt5Write9write_str",
            0x119,
            4,
            FUNC,
            LOCAL,
        ),
        // `impl A<u8>` and `impl A<u16>`.
        ("_RNvMCs1_1aINtB2_1AhE3get", 0x11d, 4, FUNC, LOCAL),
        ("_RNvMs_Cs1_1aINtB4_1AtE3get", 0x121, 4, FUNC, LOCAL),
        ("_RNvNtCsf1NHIXH95FL_17compiler_builtins5float3add", 0x125, 4, FUNC, GLOBAL),
        ("__aeabi_dadd", 0x125, 4, FUNC, WEAK),
        (
            "_RNCNvNvCshbRVOZUvOi3_12embassy_demo20___producer_task_task35___producer_task_task_inner_function0B5_",
            0x129,
            4,
            FUNC,
            LOCAL,
        ),
    ])
}

#[test]
fn a_generic_is_found_with_all_its_instances_and_different_functions_are_not_taken_for_one() {
    let elf = rust();
    let symbols = Symbols::new(Some(&elf), 0, true);
    let names = symbols.names(&[]).0;
    let starts = |found: Vec<Found>| found.into_iter().map(|found| found.address).collect::<Vec<u64>>();
    for (typed, addresses) in [
        ("generic_sort", &[0x100, 0x104, 0x108][..]),
        ("hello::generic_sort", &[0x100, 0x104, 0x108]),
        ("generic_sort#2", &[0x104]),
        ("generic_sort@0x10b", &[0x108]),
        ("hello::generic_sort::<u32>", &[0x104, 0x108]),
        ("generic_sort::<u32, u32, hello::sorts::{closure#2}>", &[0x104]),
        ("hello::generic_sort::<u32, u32, hello::sorts::{closure#4}>", &[0x108]),
        ("Square::area", &[0x10c]),
        ("hello::Group::area", &[0x110]),
        ("<hello::Group as hello::Shape>::area", &[0x110]),
        ("Shape::area#1", &[0x10c]),
        ("String::write_str", &[0x114, 0x118]),
        ("Write::write_str", &[0x114, 0x118]),
        ("A<u16>::get", &[0x120]),
        ("__aeabi_dadd", &[0x124]),
        ("float::add", &[0x124]),
        ("producer_task (async)", &[0x128]),
        ("embassy_demo::producer_task(async)", &[0x128]),
    ] {
        assert_eq!(symbols.find(typed).map(starts), Ok(addresses.to_vec()), "{typed}");
        assert_eq!(names.find(typed).map(starts), Ok(addresses.to_vec()), "{typed}");
    }
    for (typed, count) in [("area", 2), ("Shape::area", 2), ("A::get", 2), ("generic_sort#4", 3), ("area@0x124", 2)] {
        let error = symbols.find(typed).unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{typed}` names {count} functions")), "{error}");
        assert!(error.contains("\n  #2  0x"), "{error}");
        assert_eq!(names.find(typed).unwrap_err().to_string(), error);
    }
    for typed in ["sort", "generic_sort::<u8>", "generic_sort::<>x", "generic_sort#", "#1", "<", "area::<u8>"] {
        assert!(matches!(symbols.find(typed), Err(NotFound::Missing { .. })), "{typed}");
    }
}

#[test]
fn instances_of_a_template_are_one_and_overloads_are_not() {
    for (names, are_one) in [
        (&["fold<int>(int)", "fold<char>(char)"][..], true),
        (&["Ring<int, 8>::push(int)", "Ring<char, 8>::push(char)"], true),
        (&["Ring<int, 8>::push(int)", "Ring<int, 8>::push(char)"], false),
        (&["send(int)", "send(char)"], false),
        (&["fold<int>(int)", "fold(char)"], false),
        (&["init", "init"], false),
        (&["operator< (A)", "operator< (B)"], false),
        (&["<Foo as From<u8>>::from", "<Foo as From<u16>>::from"], false),
        (&["<Vec<u8> as Drop>::drop", "<Vec<u16> as Drop>::drop"], true),
        (&["<&u8 as Debug>::fmt", "<&u16 as Debug>::fmt"], false),
        (&["<[u8]>::sort::<u8>", "<[u16]>::sort::<u16>"], false),
    ] {
        assert_eq!(are_instances(names.iter().map(|&name| ("", name))), are_one, "{names:?}");
    }
    let legacy =
        ["_ZN3app4sort17h0123456789abcdefE", "_ZN3app4sort17hfedcba9876543210E"].map(|name| (name, "app::sort"));
    assert!(are_instances(legacy.into_iter()));
    assert!(!are_instances([("_ZN3app4sortEv", "app::sort()"), ("_ZN3app4sortEv", "app::sort()")].into_iter()));
}

#[test]
fn bodies_of_async_functions_read_as_such_wherever_they_stand() {
    for (name, readable) in [
        ("app::blink::{closure#0}", "app::blink (async)"),
        (
            "<exec::Storage<app::__blink_task::__blink_task_inner_function::{closure#0}>>::poll",
            "<exec::Storage<app::blink (async)>>::poll",
        ),
        ("join::<a::f::{closure#0}, b::g::<u8>::{closure#0}>", "join::<a::f (async), b::g::<u8> (async)>"),
        ("app::blink::{closure#0}::{closure#0}", "app::blink (async)::{closure#0}"),
        ("app::blink::{closure#1}", "app::blink::{closure#1}"),
        ("__a_inner_function::{closure#0}", "__a_inner_function (async)"),
    ] {
        assert_eq!(with_async_bodies(name, |_| true), readable);
        assert_eq!(with_async_bodies(name, |_| false), name);
    }
}

#[test]
fn names_of_nothing_but_brackets_are_read_in_one_pass() {
    let long = |text: &str| text.repeat(1_000_000 / text.len());
    for name in [long("<"), long(">"), long("=>"), long("()"), format!("<{}>::f", long("( as )"))] {
        assert!(!called(&name, [&*name].into_iter()).is_empty());
        assert!(called("f<u8>", [&*name].into_iter()).is_empty());
    }
}

#[test]
fn a_name_loses_its_arguments_and_keeps_itself() {
    for (name, bare) in [
        ("main", "main"),
        ("f(int)", "f"),
        ("ns::f(int (*)(char)) const", "ns::f"),
        (
            "unsigned int ns::fold<unsigned int, main::{lambda(int)#1}>(unsigned int)",
            "ns::fold<unsigned int, main::{lambda(int)#1}>",
        ),
        ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
        ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()"),
        ("ns::operator<<(int)", "ns::operator<<"),
        ("bool operator> <int>(A<int>)", "operator> <int>"),
        ("operator new(unsigned int)", "operator new"),
        ("A::operator int()", "A::operator int"),
        ("non-virtual thunk to A::f()", "non-virtual thunk to A::f"),
        ("<A as core::fmt::Debug>::fmt", "<A as core::fmt::Debug>::fmt"),
        ("f(", "f("),
        ("größe(寸法)", "größe"),
        ("", ""),
    ] {
        assert_eq!(without_arguments(name), bare);
    }
}

#[test]
fn a_name_loses_its_template_arguments() {
    for (name, bare) in [
        ("ns::fold<unsigned int, main::{lambda(int)#1}, 3>", "ns::fold<…>"),
        ("A<B<C>>::f<D>", "A<…>::f<…>"),
        ("<A as core::fmt::Debug>::fmt", "<A as core::fmt::Debug>::fmt"),
        ("ns::operator<<", "ns::operator<<"),
        ("main", "main"),
    ] {
        assert_eq!(without_template_arguments(name), bare);
    }
}

/// Functions, shared code, and whether a warning names it.
type Overlays = (Vec<(String, u64, u64)>, Vec<(u64, u64)>, bool);

/// Finds functions by labels: name, first address, size, section, and the section's end.
fn found(labels: &[(&'static str, u64, u64, usize, u64)]) -> Overlays {
    let mut labels: Vec<Label<'_>> = labels
        .iter()
        .map(|&(name, address, size_bytes, section, section_end)| Label {
            address,
            kind: Kind::Function,
            binding: Binding::Global,
            name_bytes: name.len(),
            name: Cow::Borrowed(name),
            size_bytes,
            section_end,
            section,
        })
        .collect();
    labels.sort_unstable();
    let found = overlay::functions(&labels, &BTreeSet::new());
    let functions = found.functions.into_iter();
    let functions = functions.map(|function| (function.name.into_owned(), function.range.start, function.range.end));
    let shared = found.shared.into_iter().map(|range| (range.start, range.end));
    (functions.collect(), shared.collect(), found.warning.is_some())
}

#[test]
fn functions_of_overlays_at_one_address_are_one() {
    let main = ("main", 0x100, 0x20, 1, 0x200);
    // One function each, of different lengths.
    let (functions, shared, is_said) =
        found(&[main, ("one", 0x800, 0x10, 2, 0x810), ("_Z3twoi", 0x800, 0x18, 3, 0x818)]);
    let joined = ("one or two(int)".to_owned(), 0x800, 0x818);
    assert_eq!(functions, [("main".to_owned(), 0x100, 0x120), joined]);
    assert_eq!((shared, is_said), (vec![(0x800, 0x818)], true));
    // Several functions, whose borders differ; what only one section has keeps its name.
    let (functions, shared, _) = found(&[
        main,
        ("a", 0x800, 0x8, 2, 0x818),
        ("b", 0x808, 0x10, 2, 0x818),
        ("c", 0x800, 0x10, 3, 0x840),
        ("tail", 0x820, 0x20, 3, 0x840),
    ]);
    let expected = [("main", 0x100, 0x120), ("a or c or b", 0x800, 0x818), ("tail", 0x820, 0x840)];
    assert_eq!(functions, expected.map(|(name, start, end)| (name.to_owned(), start, end)));
    assert_eq!(shared, [(0x800, 0x818)]);
    // Three overlays, and more names than are listed.
    let (functions, ..) =
        found(&[2, 3, 4, 5, 6].map(|section| (["p", "q", "r", "s", "t"][section - 2], 0x800, 8, section, 0x808)));
    assert_eq!(functions, [("p or q or r or s or 1 more".to_owned(), 0x800, 0x808)]);
}

#[test]
fn aliases_and_neighbouring_sections_are_no_overlays() {
    let (functions, shared, is_said) =
        found(&[("main", 0x100, 0x20, 1, 0x120), ("alias", 0x100, 0x20, 1, 0x120), ("next", 0x120, 0x20, 2, 0x140)]);
    assert_eq!(functions.len(), 2);
    assert_eq!((shared.len(), is_said), (0, false));
}
