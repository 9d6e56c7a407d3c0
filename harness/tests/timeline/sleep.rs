// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: while the machine sleeps its clock advances to the time of its timer, and every format with times
//! shows it.

use std::collections::BTreeMap;

use harness::analysis::event_tracks::{self, Happens, Kind};
use harness::profile::Profile;
use serde_json::Value;
use wire::timeline::What;

use crate::common::{Run, measured, run, tools};

/// Images that sleep 3,000 times until a timer of 1 ms fires.
const IMAGES: [&str; 2] = ["riscv64-idle", "cortex-m3-idle"];
const TICKS: usize = 3000;
const TICK_NS: u64 = 1_000_000;

/// Firmware time at the end of each sleep.
fn woken(profile: &Profile) -> Vec<u64> {
    let mut slept_ns = 0;
    let mut woken = Vec::new();
    for event in profile.timeline.as_ref().unwrap().events() {
        if let What::Slept { ns } = event.what {
            slept_ns += ns;
            woken.push((event.at_insns << profile.facts.icount_shift) + slept_ns);
        }
    }
    woken
}

#[test]
fn the_machine_goes_on_when_its_timer_fires() {
    let [riscv, arm] = IMAGES.map(|image| woken(measured(image, &["--timeline"]).profile()));
    assert_eq!((riscv.len(), arm.len()), (TICKS, TICKS));
    // SysTick restarts by itself.
    for (tick, pair) in arm.windows(2).enumerate() {
        assert_eq!(pair[1] - pair[0], TICK_NS, "after tick {tick}");
    }
    // This timer is set to the next multiple of its period. It counts every 100 ns, not always at an instruction's
    // start.
    let late_ns: Vec<u64> = (1..).zip(&riscv).map(|(tick, at_ns)| at_ns - tick * TICK_NS).collect();
    let (least, most) = (late_ns.iter().min().unwrap(), late_ns.iter().max().unwrap());
    assert!(most - least < 100 && *most < 1000, "{least} to {most} ns late");
}

#[test]
fn a_processor_that_spins_in_its_wait_has_the_same_time() {
    // Before 11.0 QEMU continues at once after a `wfe`; from then on it sleeps in it, for ever if no timer runs.
    let handlers = |profile: &Profile| {
        let (mut slept_ns, mut at_ns) = (0, Vec::new());
        for event in profile.timeline.as_ref().unwrap().events() {
            match event.what {
                What::Slept { ns } => slept_ns += ns,
                What::Entered { .. } => at_ns.push((event.at_insns << profile.facts.icount_shift) + slept_ns),
                _ => {}
            }
        }
        at_ns
    };
    let spinning = handlers(&run("cortex-m3-wfe", &["--timeline"]).profile());
    let sleeping = handlers(measured("cortex-m3-idle", &["--timeline"]).profile());
    // Both start the same timer at the same instruction.
    assert!(spinning.len() == 10 && spinning[..] == sleeping[..10], "{spinning:?} {:?}", &sleeping[..10]);
}

#[test]
fn a_window_that_opens_after_sleep_has_only_its_own() {
    let woken = woken(measured("cortex-m3-idle", &["--timeline", "--from", "work"]).profile());
    // Sleep up to the first tick lies before the window.
    assert_eq!(woken.len(), TICKS - 1);
    assert!(woken[0] < TICK_NS && woken.windows(2).all(|pair| pair[1] - pair[0] == TICK_NS), "{:?}", &woken[..3]);
}

#[test]
fn what_executes_has_gaps_as_long_as_the_sleep() {
    for image in IMAGES {
        let profile = measured(image, &["--timeline"]).profile();
        let shift = profile.facts.icount_shift;
        let mut since: BTreeMap<u32, u64> = BTreeMap::new();
        let (mut executes_ns, mut sleeps_ns, mut sleeps) = (0, 0, 0);
        let walked: Result<bool, ()> = event_tracks::walk(profile, |tables, moment| {
            let kind = tables.tracks[moment.track as usize].kind;
            let at_ns = (moment.at_insns << shift) + moment.beyond_ns;
            match moment.what {
                Happens::Begins(_) => drop(since.insert(moment.track, at_ns)),
                Happens::Ends(_) => {
                    let ns = since.remove(&moment.track).map_or(0, |since| at_ns - since);
                    match kind {
                        Kind::Cpu => executes_ns += ns,
                        Kind::Waits => (sleeps_ns, sleeps) = (sleeps_ns + ns, sleeps + 1),
                        _ => {}
                    }
                }
                Happens::Is(..) | Happens::Counts(_) => {}
            }
            Ok(())
        });
        assert_eq!(walked, Ok(true));
        let slept_ns = profile.timeline.as_ref().unwrap().slept_ns();
        assert_eq!((executes_ns, sleeps_ns, sleeps), (profile.total_insns() << shift, slept_ns, TICKS), "{image}");
        assert!(slept_ns > 2_900 * TICK_NS, "{image}: {slept_ns}");
    }
}

#[test]
fn the_time_asleep_and_each_tasks_share_of_the_time_need_no_timeline() {
    for image in IMAGES.into_iter().chain(["cortex-m3-threadx"]) {
        let [plain, with_timeline] = [&[][..], &["--timeline"]].map(|args| run(image, args).expect_code(0));
        let profile = plain.profile();
        let slept_ns = with_timeline.profile().timeline.as_ref().unwrap().slept_ns();
        assert_eq!(profile.facts.slept_ns, Some(slept_ns), "{image}");
        // The machine sleeps while an idle task is the running one, and all of the time is some task's once there are tasks.
        let by_tasks: Vec<(bool, u64)> = profile.tasks.iter().map(|task| (task.is_idle, task.slept_ns)).collect();
        if !by_tasks.is_empty() {
            assert_eq!(by_tasks.iter().map(|(_, ns)| ns).sum::<u64>(), slept_ns, "{image}");
            assert!(
                by_tasks.iter().all(|&(is_idle, ns)| is_idle || ns == 0) && slept_ns > 0,
                "{image}: {by_tasks:?}"
            );
        }
        let time = |run: &Run| run.stdout.lines().find(|line| line.starts_with("time: ")).unwrap().to_owned();
        assert_eq!(time(&plain), time(&with_timeline), "{image}");
        assert!(
            time(&plain).contains("; CPU load ") && !time(&plain).contains("at most"),
            "{image}: {}",
            time(&plain)
        );
    }
}

#[test]
fn exports_have_the_firmwares_time_with_its_sleep_and_seconds_made_of_instructions_have_none() {
    for image in IMAGES {
        let run = run(image, &["--timeline"]).expect_code(0);
        let profile = run.profile();
        let (shift, slept_ns) = (profile.facts.icount_shift, profile.timeline.as_ref().unwrap().slept_ns());
        assert!(run.stdout.contains(" of which the processor slept 2,9"), "{}", run.stdout);
        let expected = woken(&profile);
        let csv = tools::export(&run.dir, "timeline", &[]);
        let (mut seen, mut summed) = (Vec::new(), 0);
        for line in csv::Reader::from_reader(&csv[..]).into_records().map(Result::unwrap) {
            if &line[4] == "slept" {
                seen.push(line[1].parse::<u64>().unwrap());
                summed += line[6].parse::<u64>().unwrap();
            }
        }
        assert!(seen == expected && summed == slept_ns, "{image}");
        let json: Value = serde_json::from_slice(&tools::export(&run.dir, "json", &[])).unwrap();
        assert_eq!(json["timeline"]["slept_ns"], slept_ns, "{image}");
        let events = json["timeline"]["events"].as_array().unwrap().iter();
        let slept = events.filter(|event| event["event"] == "slept").map(|event| event["at_ns"].as_u64().unwrap());
        assert!(slept.eq(expected), "{image}");
        let by_insns = tools::export(&run.dir, "timeline", &["--clock-hz", "1G"]);
        for line in csv::Reader::from_reader(&by_insns[..]).into_records().map(Result::unwrap) {
            assert_eq!(line[0], line[1], "{image}: {line:?}");
        }
        // Samples and events share one clock.
        let chrome: Value = serde_json::from_slice(&tools::export(&run.dir, "chrome", &[])).unwrap();
        let end = |event: &Value| event["ts"].as_f64().unwrap() + event["dur"].as_f64().unwrap();
        let samples = chrome["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
        let last_us = samples.map(end).fold(0.0, f64::max);
        let last = profile.samples.last().unwrap();
        let mut slept_before = 0;
        for event in profile.timeline.as_ref().unwrap().events() {
            if let What::Slept { ns } = event.what
                && event.at_insns < last.at_insns
            {
                slept_before += ns;
            }
        }
        let expected_us = ((last.at_insns << shift) + slept_before) as f64 / 1000.0;
        assert!((last_us - expected_us).abs() < 0.001, "{image}: {last_us} {expected_us}");
    }
}
