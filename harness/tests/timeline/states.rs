// SPDX-License-Identifier: MIT OR Apache-2.0
//! States of the tasks: what the rows of the timeline add up to, computed here from the text of the CSV, and the counts that
//! the kernel's switches and the firmware's own script give.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::common::{Run, run, tools};

/// Images of five kernels, most of which wait for every kind of their objects.
const IMAGES: [&str; 8] = [
    "riscv64-crew",
    "cortex-m3-crew",
    "riscv64-waits",
    "cortex-m3-waits",
    "cortex-m3-zephyr-waits",
    "cortex-m3-threadx-waits",
    "cortex-m3-riot",
    "riscv64-nuttx",
];

/// Instructions and nanoseconds.
type Extent = (u64, u64);

fn add(to: &mut Extent, (insns, ns): Extent) {
    *to = (to.0 + insns, to.1 + ns);
}

/// States of a task by the rows.
#[derive(Clone, Debug, Default)]
struct Summed {
    state: &'static str,
    since: Extent,
    why: String,
    states: BTreeMap<&'static str, Extent>,
    waits: BTreeMap<String, (u64, Extent)>,
    /// Begin and length of the longest stretch of being ready.
    longest_ready: Option<(Extent, Extent)>,
    interrupted_insns: u64,
    kept_out_by: BTreeMap<String, Extent>,
}

impl Summed {
    fn change(&mut self, now: Extent, state: &'static str, why: &str) {
        if self.state == state && self.why == why {
            return;
        }
        let length = (now.0 - self.since.0, now.1 - self.since.1);
        if length != (0, 0) {
            add(self.states.entry(self.state).or_default(), length);
            if self.state == "blocked" {
                let wait = self.waits.entry(self.why.clone()).or_default();
                wait.0 += 1;
                add(&mut wait.1, length);
            }
            let is_longer =
                self.longest_ready.is_none_or(|(_, longest)| (length.1, length.0) > (longest.1, longest.0));
            if self.state == "ready" && is_longer {
                self.longest_ready = Some((self.since, length));
            }
        }
        (self.state, self.since, self.why) = (state, now, why.to_owned());
    }
}

/// States of the named tasks by the rows of the CSV, and the extent outside of all tasks.
fn summed(run: &Run, names: &[String], end: Extent) -> (BTreeMap<String, Summed>, Extent) {
    let first = Summed { state: "unknown", ..Summed::default() };
    let mut tasks: BTreeMap<String, Summed> = names.iter().map(|name| (name.clone(), first.clone())).collect();
    let (mut current, mut handlers, mut last, mut outside) = (String::new(), Vec::new(), (0, 0), (0, 0));
    let csv = tools::export(&run.dir, "timeline", &[]);
    let rows = csv::Reader::from_reader(&csv[..]).into_records().map(Result::unwrap);
    let rows = rows.map(|row| [0, 1, 4, 5, 7].map(|column| row[column].to_owned()));
    let over = [end.0.to_string(), end.1.to_string(), "over".to_owned(), String::new(), String::new()];
    for [insns, ns, event, name, why] in rows.chain([over]) {
        let now: Extent = (insns.parse().unwrap(), ns.parse().unwrap());
        if !["switched", "entered", "left", "woken", "not ready", "finished", "over"].contains(&&*event) {
            continue;
        }
        let passed = (now.0 - last.0, now.1 - last.1);
        last = now;
        let executing = handlers.last().unwrap_or(&current).clone();
        match tasks.get_mut(&current) {
            Some(task) if !handlers.is_empty() => task.interrupted_insns += passed.0,
            Some(_) => {}
            None => add(&mut outside, passed),
        }
        for task in tasks.values_mut().filter(|task| task.state == "ready" && passed != (0, 0)) {
            add(task.kept_out_by.entry(executing.clone()).or_default(), passed);
        }
        match &*event {
            "switched" => {
                if let Some(old) = tasks.get_mut(&current) {
                    match &*why {
                        "preempted" | "yielded" => old.change(now, "ready", ""),
                        "deleted" => old.change(now, "gone", ""),
                        "unknown" => old.change(now, "unknown", ""),
                        why => old.change(now, "blocked", why),
                    }
                }
                current = name;
                if let Some(new) = tasks.get_mut(&current) {
                    new.change(now, "running", "");
                }
            }
            "entered" => handlers.push(name),
            "left" => drop(handlers.pop()),
            "woken" => tasks.get_mut(&name).unwrap().change(now, "ready", ""),
            "not ready" => {
                let task = tasks.get_mut(&name).unwrap();
                let was_ready = task.state == "ready";
                let why = if was_ready { "suspended by another task" } else { "waits, not known for what" };
                task.change(now, "blocked", why);
            }
            "finished" => tasks.get_mut(&name).unwrap().change(now, "gone", ""),
            _ => tasks.values_mut().for_each(|task| task.change(now, "over", "")),
        }
    }
    (tasks, outside)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

fn extent(value: &Value) -> Extent {
    (number(&value["insns"]), number(&value["ns"]))
}

fn json(run: &Run) -> Value {
    serde_json::from_slice(&tools::export(&run.dir, "json", &[])).unwrap()
}

#[test]
fn states_are_what_the_rows_of_the_timeline_add_up_to() {
    let mut ready = 0;
    for image in IMAGES {
        let run = run(image, &["--timeline"]).expect_code(0);
        let (profile, json) = (run.profile(), json(&run));
        let of_tasks = json["timeline"]["tasks"].as_array().unwrap();
        let clock = profile.vcpus[0].clock_insns;
        let slept_ns = profile.timeline.as_ref().unwrap().slept_ns();
        let end = (clock, (clock << profile.facts.icount_shift) + slept_ns);
        let name = |task: &Value| task["name"].as_str().unwrap().to_owned();
        let names: Vec<String> = of_tasks.iter().map(name).collect();
        let (expected, outside) = summed(&run, &names, end);
        assert_eq!(expected.len(), profile.tasks.len(), "{image}: each name is one task's");
        let mut all = outside;
        for task in of_tasks {
            let (name, context) = (name(task), format!("{image}: {task}"));
            let expected = &expected[&name];
            let mut sum = (0, 0);
            for state in ["running", "ready", "blocked", "gone", "unknown"] {
                let of_state = extent(&task[state]);
                assert_eq!(of_state, expected.states.get(state).copied().unwrap_or_default(), "{state} of {context}");
                add(&mut sum, of_state);
            }
            assert_eq!(sum, end, "{context}");
            add(&mut all, extent(&task["running"]));
            // Counted as it executed, without the timeline.
            let counted = &profile.tasks[number(&task["task"]) as usize];
            assert_eq!(number(&task["running"]["insns"]), counted.insns, "{context}");
            assert_eq!(number(&task["interrupted_insns"]), expected.interrupted_insns, "{context}");
            let waits = task["waits"].as_array().unwrap().iter();
            let waits =
                waits.map(|wait| (wait["why"].as_str().unwrap().to_owned(), (number(&wait["times"]), extent(wait))));
            assert_eq!(waits.collect::<BTreeMap<_, _>>(), expected.waits, "{context}");
            let longest = &task["ready"]["longest"];
            let longest = (!longest.is_null())
                .then(|| ((number(&longest["at_insns"]), number(&longest["at_ns"])), extent(longest)));
            assert_eq!(longest, expected.longest_ready, "{context}");
            let kept = task["kept_out_by"].as_array().unwrap().iter();
            let kept: BTreeMap<String, Extent> =
                kept.map(|kept| (kept["name"].as_str().unwrap().to_owned(), extent(kept))).collect();
            let named = |name: &String| if name.is_empty() { "[no task]".to_owned() } else { name.clone() };
            let expected_kept: BTreeMap<String, Extent> =
                expected.kept_out_by.iter().map(|(name, kept)| (named(name), *kept)).collect();
            assert_eq!(kept, expected_kept, "{context}");
            let kept = kept.values().fold((0, 0), |mut sum, kept| {
                add(&mut sum, *kept);
                sum
            });
            assert_eq!(kept, extent(&task["ready"]), "{context}: somebody executed");
            ready += number(&task["ready"]["times"]);
        }
        assert_eq!(all, end, "{image}: what runs, and what is outside of tasks, is all");
    }
    assert!(ready > 500, "{ready}");
}

/// Waits of a task: their number by reason.
fn waits(image: &str, task: &str) -> BTreeMap<String, u64> {
    let json = json(&run(image, &["--timeline"]).expect_code(0));
    let mut tasks = json["timeline"]["tasks"].as_array().unwrap().iter();
    let task = tasks.find(|of| of["name"] == task).unwrap_or_else(|| panic!("no task {task} in {image}"));
    let waits = task["waits"].as_array().unwrap().iter();
    waits.map(|wait| (wait["why"].as_str().unwrap().to_owned(), number(&wait["times"]))).collect()
}

#[test]
fn each_wait_of_the_firmwares_script_is_counted_once_with_its_object() {
    for (image, list) in [("riscv64-waits", 8), ("cortex-m3-waits", 4)] {
        let expected = [
            ("blocked on an item of the queue inbox_queue".to_owned(), 7),
            ("blocked on room in the queue outbox_queue".to_owned(), 4),
            ("blocked on the semaphore ready".to_owned(), 5),
            ("blocked on the mutex bus".to_owned(), 2),
            (format!("blocked on the event group of the list flags_group+{list:#x}"), 6),
            ("waits for a notification".to_owned(), 7),
            ("suspended".to_owned(), 9),
            ("delayed".to_owned(), 8),
        ];
        assert_eq!(waits(image, "waits"), BTreeMap::from(expected), "{image}");
    }
    // Another task suspends this one in the middle of its work, so it is preempted then.
    for image in ["riscv64-crew", "cortex-m3-crew"] {
        assert_eq!(waits(image, "diver"), BTreeMap::from([("suspended by another task".to_owned(), 8)]), "{image}");
    }
}

#[test]
fn a_task_that_waited_is_woken_before_it_runs_on_every_kernel_that_says_why() {
    for image in ["riscv64-crew", "cortex-m3-crew", "riscv64-waits", "cortex-m3-waits", "cortex-m3-zephyr-waits"]
        .into_iter()
        .chain(["cortex-m3-threadx-waits"])
    {
        let run = run(image, &["--timeline"]).expect_code(0);
        let csv = tools::export(&run.dir, "timeline", &[]);
        let (mut waiting, mut current, mut woken) = (BTreeMap::new(), String::new(), 0);
        for row in csv::Reader::from_reader(&csv[..]).into_records().map(Result::unwrap) {
            let (insns, event, name, why) = (&row[0], &row[4], row[5].to_owned(), &row[7]);
            match event {
                "switched" => {
                    let asleep = !["preempted", "yielded", "deleted", "the first", "unknown"].contains(&why);
                    if asleep {
                        waiting.insert(current, why.to_owned());
                    }
                    assert_eq!(waiting.get(&name), None, "{image}: {name} runs at {insns}");
                    current = name;
                }
                "woken" => woken += u64::from(waiting.remove(&name).is_some()),
                _ => {}
            }
        }
        assert!(woken > 5, "{image}: {woken}");
    }
}

#[test]
fn the_terminal_shows_the_starving_task_first() {
    for image in ["riscv64-crew", "cortex-m3-crew"] {
        let run = run(image, &["--timeline"]).expect_code(0);
        let json = json(&run);
        let first = &json["timeline"]["tasks"][0];
        let (name, longest) = (first["name"].as_str().unwrap(), &first["ready"]["longest"]);
        let others =
            json["timeline"]["tasks"].as_array().unwrap()[1..].iter().filter(|task| task["is_idle"] == false);
        for other in others.map(|other| &other["ready"]["longest"]).filter(|other| !other.is_null()) {
            assert!(number(&other["ns"]) <= number(&longest["ns"]), "{image}: {other}");
        }
        let mut lines = run.stdout.lines().skip_while(|line| !line.starts_with("Task states "));
        let (heads, row) = (lines.next().expect("a table"), lines.next().unwrap());
        assert!(heads.contains("Longest ready"), "{image}: {heads}");
        assert!(row.starts_with(name), "{image}: {row}");
        let line = run.stdout.lines().find(|line| line.starts_with("longest ready without running: ")).unwrap();
        assert!(line.starts_with(&format!("longest ready without running: {name} for ")), "{image}: {line}");
        assert!(run.stdout.lines().any(|line| line.starts_with("Wait ")), "{image}: {}", run.stdout);
    }
}
