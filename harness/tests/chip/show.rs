// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness chip show`: accesses of a chip's registers by name, function and time, and polls.

use serde_json::Value;

use super::*;

fn shown(run: &Run, args: &[&str]) -> Output {
    harness().args(["chip", "show"]).arg(&run.dir).args(args).output().unwrap()
}

fn json(run: &Run) -> Value {
    let output = shown(run, &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn register<'a>(document: &'a Value, name: &str) -> &'a Value {
    let registers = document["registers"].as_array().unwrap();
    registers.iter().find(|register| register["name"] == name).unwrap_or_else(|| panic!("{name} was not accessed"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

#[test]
fn registers_are_shown_with_who_accessed_them_and_when() {
    let run = kinds(&[]).expect_code(0);
    let document = json(&run);
    assert_eq!((&document["format"], &document["chip"]), (&"harness-chip-show".into(), &"stm32f407".into()));
    // Each byte of the console is one write of the data register, after a look at the status.
    let bytes = run.console().len() as u64;
    let dr = register(&document, "USART2.DR");
    assert_eq!((number(&dr["reads"]), number(&dr["writes"])), (0, bytes));
    assert_eq!((&dr["by"][0]["function"], &dr["address"]), (&"console_putc".into(), &"0x40004404".into()));
    // TIM5's handler clears the flag of each update, main once.
    let sr = register(&document, "TIM5.SR");
    let by: Vec<(&str, u64)> = sr["by"]
        .as_array()
        .unwrap()
        .iter()
        .map(|by| (by["function"].as_str().unwrap(), number(&by["writes"])))
        .collect();
    assert_eq!(by, [("tim5", 5), ("main", 1)]);
    assert_eq!(number(&sr["writes"]), 6);
    let total = number(&document["total_insns"]);
    for register in document["registers"].as_array().unwrap() {
        assert!(number(&register["first_insns"]) <= number(&register["last_insns"]), "{register}");
        assert!(number(&register["last_insns"]) <= total, "{register}");
        let sum = |of: &str| register["by"].as_array().unwrap().iter().map(|by| number(&by[of])).sum::<u64>();
        assert_eq!((sum("reads"), sum("writes")), (number(&register["reads"]), number(&register["writes"])));
    }
    // What nothing models is counted here, too.
    let sdio = register(&document, "APB2 at 0x40012c08");
    assert_eq!((number(&sdio["reads"]), number(&sdio["writes"])), (1, 1));
}

/// The loops read, mask and branch: three instructions for each read but the first.
#[test]
fn polls_are_counted_with_their_instructions_and_named_by_the_bit_that_ends_them() {
    let document = json(&kinds(&[]).expect_code(0));
    let systick = register(&document, "SysTick.CTRL");
    assert_eq!(systick["ended_by"], serde_json::json!(["COUNTFLAG"]));
    assert_eq!(number(&systick["poll_insns"]), 3 * number(&systick["polls"]));
    assert!(number(&systick["polls"]) > 400_000, "{systick}");
    let rng = register(&document, "RNG.SR");
    assert_eq!((&rng["ended_by"], number(&rng["polls"])), (&serde_json::json!(["DRDY"]), number(&rng["reads"]) - 1));
    // A counter that is read again and again has another value each time.
    assert_eq!(number(&register(&document, "TIM2.CNT")["polls"]), 0);
}

#[test]
fn the_table_says_which_share_of_the_run_polls_what_and_where() {
    let run = kinds(&[]).expect_code(0);
    let (one, other) = (shown(&run, &[]), shown(&kinds(&[]).expect_code(0), &[]));
    let text = String::from_utf8(one.stdout).unwrap();
    assert_eq!(text, String::from_utf8(other.stdout).unwrap());
    assert!(text.contains("% of the run polls SysTick.CTRL.COUNTFLAG in main: "), "{text}");
    assert!(text.contains("and 29 more; --top 0 shows all"), "{text}");
    let all = String::from_utf8(shown(&run, &["--top", "0"]).stdout).unwrap();
    assert!(!all.contains("--top 0") && all.lines().count() > text.lines().count(), "{all}");
}

#[test]
fn the_window_and_the_oracle_have_the_same_accesses() {
    let accesses = |args: &[&str]| kinds(args).expect_code(0).profile().facts.chip.unwrap().accesses;
    assert_eq!(accesses(&[]), accesses(&["--oracle"]));
    let late = accesses(&["--from", "tim5"]);
    assert!(late.iter().all(|access| access.name != "RCC.CR"), "the clocks were started before the window");
    let cleared = late.iter().filter(|access| access.name == "TIM5.SR").map(|access| access.writes).sum::<u64>();
    assert_eq!(cleared, 5, "the handler's, from its first execution on");
}

#[test]
fn a_run_without_a_chip_has_no_registers_to_show() {
    let run = run("cortex-m3-bare-O3", &["--for", "100k"]);
    let output = shown(&run, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--chip"), "{output:?}");
}

#[test]
fn the_page_has_a_panel_of_the_registers() {
    let run = kinds(&[]).expect_code(0);
    let page = run.dir.join("page.html");
    let output = harness().arg("report").arg(&run.dir).arg("-o").arg(&page).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("% of the run polls SysTick.CTRL.COUNTFLAG in main"), "no panel");
    assert!(page.contains(r#"["USART2.DR","console_putc",[0,"#), "no row");
}
