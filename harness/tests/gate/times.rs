// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times as a gate: a deadline holds to the instruction, whatever interrupts it; a time that nobody can know does
//! not hold; and the failing message names the worst one, by whom it was interrupted, and where it began.

use harness::gate::expect::{Finding, FindingKind};

use crate::gate::suite::{Result, Suite, target};

/// Runs an image with these assertions; the text that a failure's message must contain, or None if it must hold.
#[track_caller]
fn check(image: &str, keys: &str, assertions: &[(&str, Option<&str>)]) -> (Result, Vec<Finding>, [String; 3]) {
    let list: Vec<String> = assertions.iter().map(|(text, _)| format!("'{text}'")).collect();
    let suite = Suite::new(&target(image, &format!("{keys}\nassert = [{}]", list.join(", "))));
    let result = suite.run(&[]);
    let report = result.report();
    let findings = report.cases[0].findings.iter().filter(|finding| finding.kind == FindingKind::Assertion);
    let findings: Vec<Finding> = findings.cloned().collect();
    assert_eq!(findings.len(), assertions.len(), "{}{}", result.stdout, result.stderr);
    for ((text, failure), finding) in assertions.iter().zip(&findings) {
        match failure {
            None => assert!(finding.passed, "{text}: {}", finding.message),
            Some(part) => assert!(!finding.passed && finding.message.contains(part), "{text}: {part}\n{finding:?}"),
        }
    }
    let files = result.files();
    (result, findings, files)
}

#[test]
fn a_deadline_counts_what_interrupts_the_function_and_says_who_did() {
    // `simply` has 43 instructions (tests/run/spans.rs); the handlers that come in between have 5 and 77.
    let (result, findings, [_, junit, markdown]) = check(
        "cortex-m3-masked",
        "",
        &[
            (r#"deadline("simply") <= 48"#, None),
            (r#"deadline("simply") <= 1536ns"#, None),
            (r#"deadline("simply") >= 43"#, None),
            (r#"deadline("simply") > 43"#, Some("43 instructions (1.376 us), all in [thread], from insn:")),
            (r#"deadline("simply") <= 1.535us"#, Some("1.536 us (48 instructions), 160 ns of it not in [thread]")),
            (r#"deadline("simply") < 48"#, Some("5 of it not in [thread] but in others ([irq SysTick] 5)")),
            (r#"deadline("SysTick_Handler") <= 160ns"#, None),
            (r#"deadline("SysTick") < 160ns"#, Some("160 ns (5 instructions), all in [irq SysTick]")),
            (r#"deadline("main") <= 1s"#, None),
        ],
    );
    assert_eq!(result.code, 1);
    assert!(findings[4].message.ends_with("; if each instruction takes 32 ns (--shift 5)"), "{:?}", findings[4]);
    assert_eq!(findings[4].at.as_deref(), Some("insn:12506"));
    // The first failure is the one that the debugger is to show.
    let shown = findings[3].at.as_ref().unwrap();
    assert!(result.stdout.contains(&format!("cortex-m3-masked.profile --at {shown}\n")), "{}", result.stdout);
    assert!(junit.contains(shown) && markdown.contains(shown), "{junit}{markdown}");
    check(
        "riscv64-masked",
        "",
        &[
            (r#"deadline("simply") <= 960ns"#, None),
            (
                r#"deadline("simply") <= 959ns"#,
                Some("616 ns of it not in [thread] but in others ([irq timer] 616 ns)"),
            ),
            (r#"deadline("timer") <= 77"#, None),
            (r#"deadline("timer") < 77"#, Some("77 instructions (616 ns)")),
        ],
    );
}

#[test]
fn a_call_of_a_task_lasts_while_others_execute_and_while_the_processor_sleeps() {
    check(
        "cortex-m3-waits",
        "",
        &[
            (r#"deadline("vTaskDelay") <= 999872ns"#, None),
            (
                r#"deadline("vTaskDelay") < 999872ns"#,
                Some("995.136 us of it not in waits but in others (ends 986.272 us, "),
            ),
            // The tick is the timer's, to the nanosecond.
            (r#"period("SysTick") == 1ms"#, None),
            (r#"period("SysTick_Handler") == 1ms"#, None),
        ],
    );
}

#[test]
fn masked_stretches_are_those_of_the_exact_spans() {
    check(
        "cortex-m3-masked",
        "",
        &[
            ("masked <= 501", None),
            ("masked < 501", Some("501 instructions (16.032 us), in [thread], from insn:108403 on")),
            ("masked <= 16.032us", None),
            ("masked < 16.032us", Some("16.032 us (501 instructions)")),
            ("masked_max == 501", None),
        ],
    );
    check("riscv64-masked", "", &[("masked <= 4008ns", None), ("masked < 4008ns", Some("4.008 us"))]);
    check("riscv64-nested", "for = 100", &[("masked <= 0", None)]);
}

#[test]
fn an_interrupt_may_have_waited_as_long_as_it_was_kept_from_coming() {
    // The timer comes at the end of what masks it for 102 and 101 instructions. PendSV is asked for 21 instructions before the
    // mask ends, and after that SysTick is first.
    let (_, findings, _) = check(
        "cortex-m3-masked",
        "",
        &[
            (r#"latency("SysTick") <= 102"#, None),
            (r#"latency("SysTick") <= 3.263us"#, Some("at most 3.264 us (102 instructions), for which masked")),
            (r#"latency("PendSV") <= 26"#, None),
            (
                r#"latency("PendSV") <= 25"#,
                Some("26 instructions (832 ns) from the request to its first instruction"),
            ),
            (r#"latency("SVCall") <= 1s"#, Some("SVCall never waits")),
            (r#"latency("UART5") <= 1s"#, Some("no interrupt is called UART5")),
            (r#"latency("NMI") <= 1s"#, Some("no interrupt NMI came")),
        ],
    );
    assert!(findings[1].at.is_some());
    check(
        "riscv64-masked",
        "",
        &[
            (r#"latency("timer") <= 808ns"#, None),
            (r#"latency("timer") <= 807ns"#, Some("at most 808 ns (101 instructions)")),
        ],
    );
}

#[test]
fn a_period_holds_the_shortest_and_the_longest_distance_of_starts() {
    check(
        "riscv64-crew",
        "",
        &[
            (r#"period("timer") == 1ms +- 2472ns"#, None),
            ("period(\"timer\") == 1ms \u{b1} 2472ns", None),
            (r#"period("timer") == 1ms +- 2471ns"#, Some("1.002472 ms (")),
            (r#"period("timer") <= 1.002472ms"#, None),
            (r#"period("timer") <= 1.002471ms"#, Some("of 150 distances")),
            (r#"period("timer") >= 997656ns"#, None),
            (r#"period("timer") > 997656ns"#, Some("997.656 us (")),
            (r#"period("main") <= 1s"#, Some("main started once")),
            // A task that delays itself, and is preempted in between.
            (r#"period("pulses") <= 1008216ns"#, None),
            (r#"period("pulses") < 1008216ns"#, Some("not in pulses but in others (")),
            (r#"period("pulses") >= 757432ns"#, None),
        ],
    );
}

#[test]
fn a_response_is_what_a_span_between_the_same_functions_says() {
    let numbers = |image: &str, pair: &str| {
        let never = [format!("max(\"{pair}\") < 0"), format!("response(\"{pair}\") < 0")];
        let (_, findings, _) = check(image, "", &never.each_ref().map(|text| (&**text, Some("does not hold"))));
        let number = |text: &str| text.split(' ').next().unwrap().to_owned();
        [number(&findings[0].actual), number(&findings[1].actual)]
    };
    for (image, pair) in [("cortex-m3-masked", "simply..by_register"), ("riscv64-masked", "simply..by_register")] {
        let [span, response] = numbers(image, pair);
        assert!(span == response && span != "0", "{image} {pair}: {span}, {response}");
    }
}

#[test]
fn a_time_that_is_not_known_does_not_hold() {
    let never = check(
        "cortex-m3-masked",
        "for = \"40k\"",
        &[
            (r#"deadline("longest") <= 1s"#, Some("longest never ran")),
            (r#"period("longest") <= 1s"#, Some("longest never ran")),
            (r#"response("longest..simply") <= 1s"#, Some("longest never ran")),
            (r#"deadline("main") <= 1us"#, Some(", and not over when the run ended; if each")),
            (r#"response("main..longest") <= 1us"#, Some(", and not over when the run ended; if each")),
        ],
    );
    assert_eq!(never.0.code, 1);
    let unknown = check(
        "cortex-m3-masked",
        "",
        &[
            (r#"deadline("simpyl") <= 1s"#, Some("did you mean `simply`")),
            (r#"response("simply..longset") <= 1s"#, Some("did you mean `longest`")),
        ],
    );
    assert_eq!(unknown.0.code, 2);
    let cpus = Some("times are those of one CPU, and this machine has 2");
    check("cortex-m33-an521-amp", "for = \"20k\"", &[("masked <= 1s", cpus), (r#"deadline("main") <= 1s"#, cpus)]);
}
