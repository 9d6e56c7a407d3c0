// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output of `harness heap`, its pictures, and `harness diff`.

use harness::analysis::heap::replay;
use harness::text::number::group;

use crate::common::{harness, run, viewer};

#[track_caller]
fn printed(args: &[&std::ffi::OsStr]) -> String {
    let output = harness().args(args).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn the_tables_name_paths_tasks_and_sums() {
    let run = run("cortex-m3-heap4", &["--heap", "--heap-alloc", "pool_get(size=arg0)", "--heap-free", "pool_put"]);
    let text = printed(&["heap".as_ref(), run.dir.as_ref(), "--top".as_ref(), "0".as_ref()]);
    for part in [
        "heap: 2,522 allocations (73,602 bytes), 2,484 freed\npeak: 15,332 bytes in 122 blocks, at instruction ",
        "\nleaked: 10,898 bytes in 38 blocks\n",
        "arena ucHeap: 131,072 bytes at 0x2000",
        "At the peak",
        "pool_get < tick_takes (heap-rtos.c:51) < vApplicationTickHook (heap-rtos.c:56) < xTaskIncrementTick.part.0 \
         (tasks.c:4900) < SysTick_Handler (port.c:501) < [irq SysTick] < ",
        "pvPortMalloc < __wrap_pvPortMalloc (heap-rtos.c:70) < worker (heap-rtos.c:106) < task worker (2)\n",
        // The compiler has inlined prvCreateTask.
        " < prvCreateTask (tasks.c:1692) < xTaskCreate (tasks.c:1752) < main (heap-rtos.c:160) < Reset_Handler ",
        "No memory",
        "Task ",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

#[test]
fn a_run_that_did_not_follow_it_says_how_to() {
    let run = run("cortex-m3-heap4", &[]);
    let output = harness().arg("heap").arg(&run.dir).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("profile the firmware with --heap"));
}

#[test]
fn pictures_are_as_wide_as_what_they_are_of() {
    let run = run("riscv64-heap", &["--heap"]);
    for (what, total) in
        [("peak", "2,723 bytes"), ("leaked", "1,539 bytes"), ("allocated", "40,379 bytes"), ("calls", "665 calls")]
    {
        let svg = run.dir.join("heap.svg");
        printed(&["heap".as_ref(), run.dir.as_ref(), "-o".as_ref(), svg.as_ref(), "--of".as_ref(), what.as_ref()]);
        let text = std::fs::read_to_string(&svg).unwrap();
        assert!(text.contains(&format!("<title>all ({total}, 100%)</title>")), "{what}: {total}");
    }
}

#[test]
fn diff_says_what_grew_and_where() {
    let one = run("cortex-m3-heap", &["--heap"]);
    let other = run("cortex-m3-heap-picolibc", &["--heap"]);
    let text = printed(&["diff".as_ref(), one.dir.as_ref(), other.dir.as_ref()]);
    assert!(text.contains("heap allocated    40,379  34,478"), "{text}");
    assert!(text.contains("Change of the heap"), "{text}");
    let without = run("cortex-m3-heap", &[]);
    let text = printed(&["diff".as_ref(), one.dir.as_ref(), without.dir.as_ref()]);
    assert!(text.contains("the heap was not followed in the run after"), "{text}");
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn the_page_has_a_panel_of_it() {
    let run = run("cortex-m3-heap4", &["--heap", "--heap-alloc", "pool_get(size=arg0)", "--heap-free", "pool_put"]);
    let page = run.dir.join("page.html");
    let profile = run.profile();
    let history = replay(&profile).unwrap().history;
    let most = history.iter().map(|point| point.most_bytes.max(point.high_water_bytes)).max().unwrap();
    printed(&["report".as_ref(), run.dir.as_ref(), "-o".as_ref(), page.as_ref()]);
    // The axes of the first chart.
    let up = format!("{}\n0\n", group(most));
    let along = format!("\n0\n{} instructions\n", group(profile.total_insns()));
    let seen = viewer("report.mjs", &["read", page.to_str().unwrap()]);
    let text = seen["text"].as_str().unwrap();
    for part in [
        "peak: 15,332 bytes in 122 blocks",
        "leaked: 10,898 bytes in 38 blocks",
        "pvPortMalloc < __wrap_pvPortMalloc (heap-rtos.c:70) < prvCreateTask (tasks.c:1692) < xTaskCreate ",
        "At the peak",
        "Held over time",
        up.as_str(),
        along.as_str(),
        "--heap --heap-alloc 'pool_get(size=arg0)' --heap-free pool_put",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert!(seen["sections"].as_array().unwrap().contains(&"heap".into()), "{seen:#}");
}
