# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exceptions: one for each exit code that harness documents, raised by runs that end so."""

import re

import pytest

import harness
from conftest import image
from harness.command import call
from harness.errors import ERRORS, error_of


def test_each_exit_code_of_the_help_has_its_exception() -> None:
    text = call(["--help"]).stdout.decode()
    table = text[text.index("Exit codes") :]
    codes = dict(re.findall(r"^  (\d+)  (.*)$", table, re.MULTILINE))
    assert codes.pop("0") == "all good"
    assert sorted(int(code) for code in codes) == sorted(ERRORS)
    for code, words in codes.items():
        assert words.split(":")[0] == ERRORS[int(code)].meaning
        assert ERRORS[int(code)].exit_code == int(code)


def test_a_status_that_is_no_exit_code_is_an_error_all_the_same() -> None:
    error = error_of(-9, "")
    assert type(error) is harness.HarnessError and error.exit_code == -9


def test_firmware_that_fails_raises_with_its_profile() -> None:
    with pytest.raises(harness.FirmwareFailed, match="the CPU locked up") as raised:
        harness.run(image("cortex-m3-lockup-busfault"))
    profile = raised.value.profile
    assert raised.value.exit_code == 1
    assert profile is not None and profile.end.kind == "lock-up" and profile.exit_code == 1
    assert profile.total_insns > 0


def test_a_limit_raises_with_what_was_measured_by_then() -> None:
    with pytest.raises(harness.LimitReached) as raised:
        harness.run(image("riscv64-freertos"), max_insns=100_000)
    assert raised.value.profile is not None and raised.value.profile.total_insns == 100_000


def test_without_check_the_profile_says_how_it_ended() -> None:
    profile = harness.run(image("riscv64-freertos"), max_insns=1000, check=False)
    assert profile.exit_code == 4 and profile.end.kind == "max-insns"


def test_bad_input_names_what_is_wrong_and_leaves_nothing() -> None:
    with pytest.raises(harness.BadInput, match="no-such-file") as raised:
        harness.run("no-such-file.elf")
    assert raised.value.exit_code == 2 and raised.value.profile is None
    with pytest.raises(harness.BadInput, match="stm32f407"):
        harness.run(image("cortex-m3-bare"), chip="stm32f408")


def test_an_emulator_that_is_missing_has_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_QEMU", "/nonexistent")
    with pytest.raises(harness.EmulatorFailed) as raised:
        harness.run(image("cortex-m3-bare"))
    assert raised.value.exit_code == 5
