# SPDX-License-Identifier: MIT OR Apache-2.0
"""Profiles: the numbers are those of the program, whatever way they are asked for."""

import dataclasses
import gc
import subprocess
from pathlib import Path

import pytest

import harness
from conftest import image
from harness import After, At, Profile, SetAfter, SetAt, executable


def test_functions_add_up_to_the_run(freertos: Profile) -> None:
    assert freertos.total_insns == 2_000_000
    assert sum(function.self_insns for function in freertos.functions) == 2_000_000
    assert any(function.self_insns == 0 and function.calls == 0 for function in freertos.functions)


def test_one_function_has_the_numbers_of_its_row(freertos: Profile) -> None:
    row = next(function for function in freertos.functions if function.name == "crc32_bitwise")
    assert row.self_insns > 0 and row.file == "targets/apps/work/crc.c"
    assert freertos.instructions("crc32_bitwise") == row.self_insns
    assert freertos.calls("crc32_bitwise") == row.calls
    assert freertos.instructions("main", inclusive=True) > freertos.instructions("main")


def test_a_function_that_never_executed_has_no_calls(freertos: Profile) -> None:
    idle = next(function.name for function in freertos.functions if function.kind == "function" and not function.calls)
    assert freertos.calls(idle) == 0 and freertos.instructions(idle) == 0


def test_a_name_that_there_is_not_is_answered_with_the_nearest(freertos: Profile) -> None:
    with pytest.raises(harness.BadInput, match="did you mean `crc32_bitwise`"):
        freertos.calls("crc32_bitwize")
    # Not an option, whatever it looks like.
    with pytest.raises(harness.BadInput, match="no function is called `--depth=3`"):
        freertos.calls("--depth=3")


def test_a_saved_profile_is_the_same_when_it_is_loaded(tmp_path: Path) -> None:
    made = harness.run(image("riscv64-exit3"), output=tmp_path / "made", check=False)
    loaded = Profile.load(tmp_path / "made")
    assert loaded.functions == made.functions and loaded.facts == made.facts and loaded.end == made.end
    assert made.end.kind == "exit" and made.end.status == 3 and made.exit_code == 1
    assert (tmp_path / "made" / "flamegraph.svg").is_file()


def test_the_same_run_gives_the_same_bytes_as_the_program(tmp_path: Path) -> None:
    harness.run(image("riscv64-echo"), for_="1M", output=tmp_path / "python", check=False)
    command = [str(executable()), str(image("riscv64-echo")), "--for", "1M", "-q", "-o", str(tmp_path / "program")]
    subprocess.run(command, check=True)
    for name in ("profile.fwp", "console.log", "flamegraph.svg"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "program" / name).read_bytes()


def test_a_temporary_profile_goes_with_its_object() -> None:
    profile = harness.run(image("riscv64-exit3"), check=False)
    folder = profile.path.parent
    assert profile.console_bytes is not None and folder.is_dir()
    del profile
    gc.collect()
    assert not folder.exists()


def test_tasks_and_events_are_those_of_the_kernel(freertos: Profile) -> None:
    names = {task.name for task in freertos.tasks}
    assert {"crc", "matrix"} <= names
    switched = [event for event in freertos.timeline if event.event == "switched"]
    assert {event.name for event in switched} <= names
    for task in freertos.tasks:
        assert sum(event.name == task.name for event in switched) == task.switches
    assert [event.at_insns for event in freertos.timeline] == sorted(event.at_insns for event in freertos.timeline)


def test_what_was_not_recorded_names_the_option(zones: Profile, tmp_path: Path) -> None:
    with pytest.raises(harness.NotRecorded, match="timeline=True"):
        zones.timeline
    with pytest.raises(harness.NotRecorded, match="cycles"):
        zones.cycles("main")
    alone = tmp_path / "alone.fwp"
    alone.write_bytes((zones.path / "profile.fwp").read_bytes())
    with pytest.raises(harness.NotRecorded, match="console.log"):
        Profile.load(alone).console
    with pytest.raises(harness.NotRecorded, match="elf="):
        Profile.load(alone).stack


def test_zones_and_spans_are_exact(zones: Profile) -> None:
    zone = zones.zones[0]
    assert zone.all.calls > 0 and zone.all.min_insns <= zone.all.mean_insns <= zone.all.max_insns
    assert sum(context.counts.total_insns for context in zone.contexts) == zone.all.total_insns
    calls = [span for span in zones.spans if span.kind == "call" and span.count > 1]
    assert calls
    for span in calls:
        assert span.count <= zones.calls(span.name) and span.min_insns * span.count <= span.sum_insns


def test_coverage_has_lines_functions_and_branches(freertos: Profile) -> None:
    coverage = freertos.coverage
    assert coverage.line_tally.found == len(coverage.lines)
    assert coverage.line_tally.hit == sum(line.count > 0 for line in coverage.lines)
    assert 0 < coverage.line_tally.share < 1
    assert coverage.branch_tally.hit == sum(branch.ways_taken for branch in coverage.branches)
    calls = {function.name: function.calls for function in coverage.functions}
    assert calls["crc32_bitwise"] == freertos.calls("crc32_bitwise")


def test_the_stack_that_was_used_is_within_its_bound(freertos: Profile) -> None:
    rows = {row.name: row for row in freertos.stack}
    assert rows["main"].bytes > 0 and not rows["main"].is_task
    for row in rows.values():
        assert row.error is None
        assert row.certainty == "unbounded" or (row.seen_bytes or 0) <= row.bytes


def test_a_difference_names_its_cause(freertos: Profile) -> None:
    assert freertos.diff(freertos).functions == []
    longer = harness.run(image("cortex-m3-freertos"), for_="3M")
    diff = freertos.diff(longer)
    assert diff.total_insns.change == 1_000_000
    assert sum(function.self_insns.change for function in diff.functions) <= 1_000_000
    assert diff.functions[0].name in diff.explanation and diff.mismatches


def test_texts_are_typed_with_any_character() -> None:
    texts = [After("prompt> ", "a:b\\n\n"), After("prompt> ", b"\xff\t\n"), After("prompt> ", "quit\n")]
    profile = harness.run(image("riscv64-echo"), input=texts)
    # The firmware answers with each byte of the line, backwards.
    assert "5: 6e 5c 62 3a 61" in profile.console
    assert "2: 09 ff" in profile.console
    assert profile.end.status == 0 and profile.console.endswith("bye\n")
    early = harness.run(image("riscv64-echo"), input=[At(100_000, "hi\n"), At("200k", "quit\n")])
    assert "2: 69 68" in early.console


def test_what_is_outside_changes_at_a_time_or_after_a_prompt() -> None:
    profile = harness.run(
        image("chips/stm32f407-parts"),
        chip="stm32f407",
        for_="60M",
        input=[
            SetAt("1us", "PA0=1"),
            SetAfter("press", "PA0=0,for=150ms,bounce=2ms"),
            SetAfter("turn", "ADC1.CH3=2345"),
        ],
    )
    for line in ("a button's contact bounces", "it is released", "a potentiometer is turned"):
        assert f"right {line}\n" in profile.console


def test_rows_become_tables(freertos: Profile) -> None:
    table = [dataclasses.asdict(row) for row in freertos.functions]
    assert table[0]["name"] == freertos.functions[0].name
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(freertos.functions)
    assert frame["self_insns"].sum() == 2_000_000


def test_a_page_and_other_formats_are_written_where_they_are_wanted(freertos: Profile, tmp_path: Path) -> None:
    page = freertos.report(tmp_path / "page.html")
    assert page.read_text().startswith("<!doctype html>") or "<html" in page.read_text()[:500]
    folded = freertos.export("folded", tmp_path / "stacks.folded")
    assert sum(int(line.rsplit(" ", 1)[1]) for line in folded.read_text().splitlines()) == 2_000_000


def test_options_reach_the_program(tmp_path: Path) -> None:
    elf = image("cortex-m3-bare")
    profile = harness.run(elf, machine="lm3s6965evb", from_="main", for_="500k", period=1000, options=["--shift=5"])
    facts = profile.facts
    assert (facts.machine, facts.icount_shift, facts.period_insns) == ("lm3s6965evb", 5, 1000)
    assert facts.before_window_insns > 0 and profile.total_insns == 500_000
    stubbed = harness.run(elf, stub={"crc32_bitwise": 5}, until="crc32_bitwise")
    assert stubbed.end.kind == "until"


