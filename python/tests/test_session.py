# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sessions: a run that stands at an instruction, forwards and backwards, the same each time."""

from typing import Callable, List, Tuple, Type

import pytest

import harness
from conftest import image
from harness import At, Profile


@pytest.fixture(scope="module")
def bare() -> Profile:
    """A run without an operating system."""
    return harness.run(image("cortex-m3-bare"), for_="1M")


def _walk(profile: Profile) -> List[str]:
    """Stops of a walk through a run, with registers."""
    with harness.open(profile) as run:
        stops = [run.run_until("main").text]
        for _ in range(3):
            stops.append(run.run_until("crc32_bitwise").text)
        stops.append(f"{run.read_register('pc'):#x} {run.read_register('sp'):#x}")
        stops.append(run.step(7).text)
        stops.append(run.run_back_to("crc32_bitwise").text)
        stops.append(run.goto("insn:100000").text)
        return stops


def test_the_same_walk_stops_at_the_same_instructions(bare: Profile) -> None:
    walk = _walk(bare)
    assert walk == _walk(bare)
    main, first, second, third, registers, behind, back, numbered = walk
    assert back == third and len({main, first, second, third, behind, numbered}) == 6
    assert "in main" in main and all("crc32_bitwise" in stop for stop in (first, second, third))
    assert numbered.startswith("instruction 100,000: ")
    (address,) = bare.addresses("crc32_bitwise")
    assert registers.startswith(f"{address:#x} ")


def test_calls_are_as_many_as_the_profile_has(bare: Profile) -> None:
    calls = 0
    with harness.open(bare) as run:
        # The run goes on behind the profile's window.
        while run.run_until("crc32_bitwise").run_insn <= bare.total_insns:
            calls += 1
    assert calls == bare.calls("crc32_bitwise") > 0


def test_steps_go_both_ways(bare: Profile) -> None:
    with harness.open(bare, at="call:crc32_bitwise:2") as run:
        here = run.position
        assert here.insn is not None and run.step(5).insn == here.insn + 5
        assert run.step(-5) == here
        with pytest.raises(harness.NotReached):
            run.goto("insn:1")
            run.step(-1)


def test_places_and_names_that_there_are_not_leave_the_run_where_it_is(bare: Profile) -> None:
    with harness.open(bare, at="insn:1000") as run:
        here = run.position
        attempts: List[Tuple[Type[Exception], Callable[[], object]]] = [
            (harness.NotReached, lambda: run.goto("call:crc32_bitwise:100000")),
            (harness.NotReached, lambda: run.goto("nowhere")),
            (harness.BadInput, lambda: run.run_until("no_such_function")),
            (harness.BadInput, lambda: run.read_variable("no_such_variable")),
            (harness.Refused, lambda: run.read_memory(0xF0000000, 4)),
            (KeyError, lambda: run.read_register("r99")),
        ]
        for error, act in attempts:
            with pytest.raises(error):
                act()
        assert run.position == here
    with pytest.raises(harness.BadInput, match="nowhere"):
        harness.open(bare, at="nowhere")


def test_a_dialogue_is_typed_and_expected() -> None:
    with harness.open(image("riscv64-echo"), for_="10M") as run:
        assert run.expect(r"prompt> ") == "prompt> "
        start = run.snapshot()
        run.type("help\n")
        assert run.expect(r"\d+: [0-9a-f ]+\n") == "4: 70 6c 65 68\n"
        assert run.read_bytes("line")[:4] == b"help"
        assert run.read_variable("length") == 4
        answered = run.position
        # The past of before the text, from where another text is typed.
        assert run.restore(start) == start.position
        run.type("quit\n")
        run.expect("bye")
        assert run.profile.end.status == 0
        run.restore(start)
        run.type("help\n")
        run.expect(r"4: [0-9a-f ]+\n")
        assert run.position == answered
        # What was printed already is no reason to go back.
        end = run.goto("end")
        assert run.expect("prompt> ") == "prompt> " and run.position == end
        with pytest.raises(harness.NotReached, match="nobody there"):
            run.expect("never printed")


def test_a_snapshot_is_a_place_to_come_back_to(bare: Profile) -> None:
    with harness.open(bare) as run:
        run.run_until("crc32_bitwise")
        snapshot = run.snapshot()
        registers = run.read_register("sp")
        run.goto("end")
        assert run.position != snapshot.position
        assert run.restore(snapshot) == snapshot.position
        assert run.read_register("sp") == registers


def test_a_variable_is_followed_and_changed() -> None:
    with harness.open(image("riscv64-echo"), for_="10M", input=[At(200_000, "abc\n")]) as run:
        run.expect("prompt> ")
        values = []
        for _ in range(3):
            run.run_until_written("length")
            run.step()
            values.append(run.read_variable("length"))
        assert values == sorted(values) and values[-1] in (2, 3)
        run.write_variable("length", 1)
        assert run.read_variable("length") == 1
        # From there on it is another run.
        with pytest.raises(harness.NotReached, match="the debugger wrote to the run"):
            run.goto("call:main")


def test_typing_needs_the_options_of_the_run(bare: Profile) -> None:
    with harness.open(bare) as run, pytest.raises(harness.NotRecorded, match="open the firmware itself"):
        run.type("x")
    with pytest.raises(TypeError):
        harness.open(bare, chip="stm32f407")
