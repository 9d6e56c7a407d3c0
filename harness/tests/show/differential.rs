// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: changes between two profiles are visible, vanished frames included, in the same bytes each time.

use std::collections::BTreeMap;

use harness::analysis::both::Sampling;
use harness::analysis::calltree::CallTree;
use harness::analysis::stacks::{Frame, FrameRole, View};
use harness::export::differential::{Side, svg};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::common::{Run, run};

type Weights = Vec<(Vec<Frame>, u64)>;

/// Frame as drawn.
#[derive(Clone, Debug, Default)]
struct Drawn {
    /// Number shared by the two panels.
    number: u64,
    start_insns: u64,
    insns: u64,
    /// The hover text.
    title: String,
    x: f64,
    width: f64,
    fill: String,
}

impl Drawn {
    fn name(&self) -> &str {
        self.title.rsplit_once(" (").unwrap().0
    }
}

#[derive(Debug, Default)]
struct Picture {
    before: Vec<Drawn>,
    after: Vec<Drawn>,
    /// Text outside of frames.
    text: String,
}

fn draw(before: (&str, Weights), after: (&str, Weights)) -> String {
    let mut out = Vec::new();
    svg(&Side::new(before.0, before.1), &Side::new(after.0, after.1), &Sampling::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let attribute = element.attributes().map(Result::unwrap).find(|found| found.key.as_ref() == name.as_bytes())?;
    Some(unescape(std::str::from_utf8(&attribute.value).unwrap()))
}

fn unescape(text: &str) -> String {
    quick_xml::escape::unescape(text).unwrap().into_owned()
}

/// Parses a picture as XML; malformed XML fails here.
fn parse(svg: &str) -> Picture {
    let mut picture = Picture::default();
    let mut reader = Reader::from_str(svg);
    let (mut side, mut frame, mut element) = (None, None::<Drawn>, String::new());
    let mut depth = 0;
    loop {
        let event = reader.read_event().unwrap();
        match &event {
            Event::Eof => break,
            Event::Start(start) | Event::Empty(start) => {
                depth += i32::from(matches!(event, Event::Start(_)));
                element = String::from_utf8(start.name().as_ref().to_vec()).unwrap();
                let number = |name: &str| attribute(start, name).map(|value| value.parse::<f64>().unwrap());
                if let Some(name) = attribute(start, "data-side") {
                    side = Some(name);
                }
                if let Some(n) = number("data-n") {
                    let value = |name| number(name).unwrap() as u64;
                    frame = Some(Drawn {
                        number: n as u64,
                        start_insns: value("data-x"),
                        insns: value("data-w"),
                        ..Drawn::default()
                    });
                }
                if let (Some(frame), "rect") = (&mut frame, element.as_str()) {
                    (frame.x, frame.width) = (number("x").unwrap(), number("width").unwrap());
                    frame.fill = attribute(start, "fill").unwrap();
                }
            }
            Event::Text(_) | Event::GeneralRef(_) => {
                let text = match &event {
                    Event::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
                    Event::GeneralRef(name) => unescape(&format!("&{};", std::str::from_utf8(name).unwrap())),
                    _ => String::new(),
                };
                match &mut frame {
                    Some(frame) if element == "title" => frame.title.push_str(&text),
                    Some(_) => {}
                    None => picture.text.push_str(&text),
                }
            }
            Event::End(end) => {
                depth -= 1;
                if end.name().as_ref() == b"g" {
                    match (frame.take(), side.as_deref()) {
                        (Some(frame), Some("before")) => picture.before.push(frame),
                        (Some(frame), _) => picture.after.push(frame),
                        (None, _) => side = None,
                    }
                }
            }
            _ => {}
        }
    }
    assert_eq!(depth, 0, "an element is left open");
    picture
}

fn stack(names: &[&str]) -> Vec<Frame> {
    names.iter().map(|name| Frame { name: (*name).to_owned(), role: FrameRole::Function }).collect()
}

fn weights(stacks: &[(&[&str], u64)]) -> Weights {
    stacks.iter().map(|(names, insns)| (stack(names), *insns)).collect()
}

fn of(run: &Run) -> Weights {
    CallTree::new(&run.profile(), View::default()).stacks().into_iter().collect()
}

fn profile(name: &str) -> Weights {
    of(&run(name, &[]).expect_code(0))
}

fn total(weights: &Weights) -> u64 {
    weights.iter().map(|(_, insns)| insns).sum()
}

/// Instructions of the frames right below the root.
fn roots(frames: &[Drawn], weights: &Weights) -> u64 {
    let names: std::collections::BTreeSet<&str> = weights.iter().map(|(stack, _)| stack[0].name.as_str()).collect();
    let mut sum = 0;
    let mut next = 0;
    // Frames come depth first, so a root frame is the first that starts where the last one ended.
    for frame in &frames[1..] {
        if frame.start_insns >= next && names.contains(frame.name()) {
            sum += frame.insns;
            next = frame.start_insns + frame.insns;
        }
    }
    sum
}

/// Shuffles the stacks, in the same way each time.
fn shuffled(weights: &Weights) -> Weights {
    let mut shuffled = weights.clone();
    let mut state = 1_u64;
    for index in (1..shuffled.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        shuffled.swap(index, (state >> 33) as usize % (index + 1));
    }
    shuffled
}

/// Meaning of a fill.
fn hue(fill: &str) -> &'static str {
    let channels: Vec<u32> = fill
        .strip_prefix("rgb(")
        .and_then(|rest| rest.strip_suffix(')'))
        .map(|rest| rest.split(',').map(|channel| channel.parse().unwrap()).collect())
        .unwrap_or_default();
    match (fill, channels.as_slice()) {
        ("url(#new)", _) => "new",
        ("url(#vanished)", _) => "vanished",
        (_, [red, _, blue]) if red > blue => "red",
        (_, [red, _, blue]) if red < blue => "blue",
        _ => "grey",
    }
}

/// Colours of all frames of a picture by number; both panels must agree.
fn hues(picture: &Picture) -> BTreeMap<u64, &'static str> {
    let mut hues = BTreeMap::new();
    for frame in picture.before.iter().chain(&picture.after) {
        let hue = hue(&frame.fill);
        assert_eq!(*hues.entry(frame.number).or_insert(hue), hue, "{frame:?}");
    }
    hues
}

fn check_images(before_name: &str, after_name: &str) {
    let (before, after) = (profile(before_name), profile(after_name));
    let svg = draw((before_name, before.clone()), (after_name, after.clone()));
    let picture = parse(&svg);
    for name in [format!("before: {before_name}"), format!("after: {after_name}")] {
        assert!(picture.text.contains(&name), "{name} not in {}", picture.text);
    }
    assert!(!picture.text.contains("Nothing changed"), "{}", picture.text);
    for (frames, weights) in [(&picture.before, &before), (&picture.after, &after)] {
        assert_eq!((frames[0].name(), frames[0].insns), ("all", total(weights)));
        // Frames narrower than a hundredth of a percent are not drawn.
        let roots = roots(frames, weights);
        assert!(roots <= total(weights) && roots as f64 > total(weights) as f64 * 0.995, "{roots}");
        for frame in frames {
            assert!(frame.start_insns + frame.insns <= total(weights), "{frame:?}");
            assert!(frame.x >= 10.0 && frame.x + frame.width <= 1190.1, "{frame:?}");
        }
    }
    // Vanished frames have a width in the panel before, and only there.
    let vanished: Vec<&Drawn> = picture.before.iter().filter(|frame| hue(&frame.fill) == "vanished").collect();
    assert!(vanished.iter().any(|frame| frame.width > 1.0), "{vanished:#?}");
    for frame in vanished {
        assert!(frame.insns > 0 && frame.title.ends_with("-100.00%, vanished)"), "{frame:?}");
        assert!(!picture.after.iter().any(|other| other.number == frame.number), "{frame:?}");
    }
    assert_eq!(draw((before_name, before.clone()), (after_name, after.clone())), svg, "again");
    assert_eq!(draw((before_name, shuffled(&before)), (after_name, shuffled(&after))), svg, "in another order");

    let swapped = hues(&parse(&draw((after_name, after), (before_name, before))));
    let opposite = |hue: &'static str| match hue {
        "new" => "vanished",
        "vanished" => "new",
        "red" => "blue",
        "blue" => "red",
        same => same,
    };
    let expected: BTreeMap<u64, _> = hues(&picture).into_iter().map(|(n, hue)| (n, opposite(hue))).collect();
    assert_eq!(swapped, expected);
}

#[test]
fn what_an_optimiser_changed_is_to_be_seen() {
    check_images("cortex-m3-stacks", "cortex-m3-stacks-O3");
}

#[test]
fn what_changed_below_tasks_is_to_be_seen() {
    check_images("riscv64-freertos", "riscv64-freertos-O3");
}

#[test]
fn two_equal_sides_say_that_nothing_changed() {
    let weights = profile("cortex-m3-stacks");
    let picture = parse(&draw(("one", weights.clone()), ("other", weights)));
    assert!(picture.text.contains("Nothing changed"), "{}", picture.text);
    assert!(picture.text.contains("new: 0 frames") && picture.text.contains("vanished: 0 frames"));
    assert!(hues(&picture).values().all(|hue| *hue == "grey"));
    assert!(picture.before.iter().all(|frame| frame.title.ends_with(": the same)")));
}

/// Compares two runs by `harness diff -o`. Returns the picture and the printed text.
fn drawn(before: &Run, after: &Run) -> (Picture, String) {
    let temp = tempfile::tempdir().unwrap();
    let picture = temp.path().join("diff.svg");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_harness"));
    let output = command.arg("diff").arg(&before.dir).arg(&after.dir).arg("-o").arg(&picture).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (parse(&std::fs::read_to_string(&picture).unwrap()), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn runs_that_executed_the_same_to_the_instruction_differ_in_nothing_whatever_was_sampled() {
    for name in ["cortex-m3-freertos", "riscv64-cpp"] {
        let of = |period: &str| run(name, &["--for", "4M", "--period", period]).expect_code(0);
        let [before, after] = ["10007", "7001"].map(of);
        // The sampled paths differ.
        let paths = |run: &Run| of_paths(&CallTree::new(&run.profile(), View::default()));
        assert_ne!(paths(&before), paths(&after), "{name}");
        let (picture, table) = drawn(&before, &after);
        assert!(table.contains("total unchanged"), "{table}");
        assert!(picture.text.contains("Nothing changed"), "{name}: {}", picture.text);
        assert!(hues(&picture).values().all(|hue| *hue == "grey"), "{name}: {:#?}", hues(&picture));
        for frame in picture.before.iter().chain(&picture.after) {
            assert!(frame.title.ends_with(": the same)"), "{name}: {frame:?}");
        }
        // Divided counts are marked as approximate: FreeRTOS's functions are called by several tasks. The total is
        // exact.
        let is_divided = picture.after.iter().any(|frame| frame.title.contains("\u{2248}"));
        assert_eq!(is_divided, name == "cortex-m3-freertos", "{name}");
        assert!(!picture.after[0].title.contains("\u{2248}"), "{name}: {:?}", picture.after[0]);
        // The report page shows no differences either.
        let temp = tempfile::tempdir().unwrap();
        let page = temp.path().join("page.html");
        let mut report = std::process::Command::new(env!("CARGO_BIN_EXE_harness"));
        report.arg("report").arg(&after.dir).arg("--before").arg(&before.dir).arg("-o").arg(&page);
        assert!(report.output().unwrap().status.success());
        let text = std::fs::read_to_string(&page).unwrap();
        let list = |key: &str| -> Vec<String> {
            let list = text.split_once(&format!("\"{key}\":[")).unwrap().1.split_once(']').unwrap().0;
            list.split(',').map(str::to_owned).collect()
        };
        let compared = text.split_once("\"paths\":{\"before\":[").unwrap().1.split_once(']').unwrap().0;
        let before: Vec<&str> = compared.split(',').collect();
        let depths: Vec<usize> = list("depth").iter().map(|depth| depth.parse().unwrap()).collect();
        let own: Vec<u64> = text
            .split_once("\"paths\":{\"depth\":")
            .unwrap()
            .1
            .split_once("\"insns\":[")
            .unwrap()
            .1
            .split_once(']')
            .unwrap()
            .0
            .split(',')
            .map(|insns| insns.parse().unwrap())
            .collect();
        assert_eq!((before.len(), own.len()), (depths.len(), depths.len()));
        for path in 0..depths.len() {
            let below = (path + 1..depths.len()).take_while(|other| depths[*other] > depths[path]);
            let insns: u64 = own[path] + below.map(|other| own[other]).sum::<u64>();
            assert_eq!(before[path], insns.to_string(), "{name}: path {path} of the page");
        }
    }
}

fn of_paths(tree: &CallTree) -> Weights {
    tree.stacks().into_iter().collect()
}

#[test]
fn a_difference_of_what_is_sampled_has_its_error_and_no_colour_within_that() {
    let of = |name: &str| run(name, &["--for", "4M"]).expect_code(0);
    let (picture, _) = drawn(&of("riscv64-freertos"), &of("riscv64-freertos-O3"));
    let frames = || picture.before.iter().chain(&picture.after);
    let (mut errors, mut within) = (0, 0);
    for frame in frames() {
        let has_error = frame.title.contains(" \u{b1}");
        // A number with an error always has the sign before it.
        assert_eq!(has_error, frame.title.contains(": \u{2248}"), "{frame:?}");
        errors += usize::from(has_error);
        if frame.title.contains("within the error of the samples") {
            assert_eq!(hue(&frame.fill), "grey", "{frame:?}");
            within += 1;
        }
    }
    assert!(errors > 10 && within > 0, "{errors} errors, {within} within them");
    assert!(frames().any(|frame| hue(&frame.fill) == "red") && frames().any(|frame| hue(&frame.fill) == "blue"));
    // The total is exact.
    assert!(!picture.after[0].title.contains(['\u{2248}', '\u{b1}']), "{:?}", picture.after[0]);
}

#[test]
fn each_frame_says_what_it_was_and_is() {
    let before = weights(&[(&["main"], 1000), (&["main", "crc"], 3000), (&["main", "gone", "deeper"], 4000)]);
    let after = weights(&[(&["main"], 1000), (&["main", "crc"], 4500), (&["main", "added"], 500)]);
    let picture = parse(&draw(("a", before), ("b", after)));
    let seen = |frames: &[Drawn]| -> Vec<(String, &str, f64)> {
        frames.iter().map(|frame| (frame.title.clone(), hue(&frame.fill), frame.width)).collect()
    };
    let [main, crc] = [
        ("main (8,000 instructions before, 6,000 after: -2,000, -25.00%)", "blue"),
        ("crc (3,000 instructions before, 4,500 after: +1,500, +50.00%)", "red"),
    ];
    let all = "all (8,000 instructions before, 6,000 after: -2,000, -25.00%)";
    assert_eq!(
        seen(&picture.before),
        [
            (all.to_owned(), "blue", 1180.0),
            (main.0.to_owned(), main.1, 1180.0),
            (crc.0.to_owned(), crc.1, 442.5),
            ("gone (4,000 instructions before, 0 after: -4,000, -100.00%, vanished)".to_owned(), "vanished", 590.0),
            ("deeper (4,000 instructions before, 0 after: -4,000, -100.00%, vanished)".to_owned(), "vanished", 590.0),
        ]
    );
    // Drawn in the scale of the wider side.
    assert_eq!(
        seen(&picture.after),
        [
            (all.to_owned(), "blue", 885.0),
            (main.0.to_owned(), main.1, 885.0),
            ("added (0 instructions before, 500 after: +500, new)".to_owned(), "new", 73.75),
            (crc.0.to_owned(), crc.1, 663.75),
        ]
    );
    assert!(picture.text.contains("in one scale"), "{}", picture.text);
}

#[test]
fn a_much_smaller_side_is_still_wide_enough_to_read_and_that_is_said() {
    let picture = parse(&draw(("a", weights(&[(&["main"], 5000)])), ("b", weights(&[(&["main"], 1000)]))));
    assert_eq!((picture.before[1].width, picture.after[1].width), (1180.0, 1180.0));
    assert!(picture.text.contains("each panel in its own scale"), "{}", picture.text);
    let picture = parse(&draw(("a", weights(&[(&["main"], 4000)])), ("b", weights(&[(&["main"], 1000)]))));
    assert_eq!((picture.before[1].width, picture.after[1].width), (1180.0, 295.0));
}

#[test]
fn a_function_that_is_inlined_now_is_the_same_function() {
    let called = weights(&[(&["main", "crc"], 100)]);
    let mut inlined = called.clone();
    inlined[0].0[1].role = FrameRole::Inlined;
    let picture = parse(&draw(("a", called), ("b", inlined)));
    assert_eq!(picture.before[2].name(), "crc");
    let title = "crc (inlined) (100 instructions before, 100 after: the same, called before, inlined after)";
    assert_eq!(picture.after[2].title, title);
    assert!(!picture.text.contains("Nothing changed"), "{}", picture.text);
}

#[test]
fn what_is_called_the_same_in_another_place_is_not_the_same() {
    let picture = parse(&draw(("a", weights(&[(&["one", "f"], 9)])), ("b", weights(&[(&["other", "f"], 9)]))));
    assert!(picture.before[1..].iter().all(|frame| hue(&frame.fill) == "vanished"), "{picture:#?}");
    assert!(picture.after[1..].iter().all(|frame| hue(&frame.fill) == "new"), "{picture:#?}");
}

#[test]
fn names_that_are_syntax_stay_whole() {
    let names = ["a<b>", "a&b", "say \"it's\"", "größe::寸法", "]]>", "f (1)", "</title>", "&amp;"];
    let before: Weights = names.iter().map(|name| (stack(&["main", name]), 10)).collect();
    let label = "dir/<&\"'>;größe\u{1}.elf";
    let picture = parse(&draw((label, before), (label, weights(&[(&["main"], 80), (&["operator;", "\u{0}"], 2)]))));
    for name in names {
        // A semicolon would end the frame, as in the flamegraph.
        let name = name.replace(';', ":");
        let title = format!("{name} (10 instructions before, 0 after: -10, -100.00%, vanished)");
        assert_eq!(picture.before.iter().filter(|frame| frame.title == title).count(), 1, "{picture:#?}");
    }
    assert!(picture.text.contains("before: dir/<&\"'>;größe?.elf"), "{}", picture.text);
    assert!(picture.after.iter().any(|frame| frame.name() == "operator:"), "{picture:#?}");
}

#[test]
fn a_side_without_instructions_is_drawn() {
    let some = weights(&[(&["main"], 80)]);
    let picture = parse(&draw(("a", Vec::new()), ("b", some)));
    assert!(picture.before.is_empty() && picture.after.iter().all(|frame| hue(&frame.fill) == "new"));
    let nothing = parse(&draw(("a", Vec::new()), ("b", weights(&[(&["main"], 0)]))));
    assert!(nothing.text.contains("Nothing was executed on either side"), "{}", nothing.text);
}

#[test]
fn very_deep_and_very_large_stacks_never_panic() {
    let deep: Vec<Frame> = stack(&["f"; 20_000]);
    let picture = parse(&draw(("a", vec![(deep, u64::MAX)]), ("b", weights(&[(&["f"], u64::MAX), (&["g"], 2)]))));
    assert_eq!(picture.before.len(), 20_001);
}

#[test]
fn followed_and_sampled_call_paths_are_not_drawn_as_if_they_compared() {
    let sampled = run("cortex-m3-stacks", &[]).expect_code(0);
    let exact = run("cortex-m3-stacks", &["--exact"]).expect_code(0);
    let temp = tempfile::tempdir().unwrap();
    let picture = temp.path().join("diff.svg");
    let diff = |before: &Run, after: &Run, picture: Option<&std::path::Path>| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_harness"));
        command.arg("diff").arg(&before.dir).arg(&after.dir);
        command.args(picture.iter().flat_map(|picture| ["-o", picture.to_str().unwrap()]));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    for (before, after, words) in [
        (&sampled, &exact, ["has sampled call stacks", "has an exact call tree"]),
        (&exact, &sampled, ["has an exact call tree", "has sampled call stacks"]),
    ] {
        let (code, stdout, stderr) = diff(before, after, Some(&picture));
        assert_eq!((code, stdout.as_str(), picture.exists()), (Some(2), "", false), "{stderr}");
        let first = stderr.find(words[0]).unwrap_or_else(|| panic!("{stderr}"));
        assert!(stderr[first..].contains(words[1]) && stderr.contains("--exact"), "{stderr}");
        // The table has the same exact counts on both sides.
        let (code, stdout, stderr) = diff(before, after, None);
        assert_eq!(code, Some(0), "{stderr}");
        assert!(stdout.contains("total unchanged"), "{stdout}");
    }
    let (code, _, stderr) = diff(&exact, &exact, Some(&picture));
    assert_eq!((code, picture.exists()), (Some(0), true), "{stderr}");
}
