# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which harness is executed: that of the wheel, of $HARNESS, of the PATH, and never one of the current directory."""

import os
from pathlib import Path

import pytest

import harness_program
from harness import executable


def _program(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "harness"
    path.write_text("#!/bin/sh\nexit 7\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, somebody else's, with a harness in it; nothing else is installed."""
    folder = tmp_path / "here"
    _program(folder)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("HARNESS", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(harness_program, "CARRIED", str(tmp_path / "wheel" / "harness"))
    return folder


def test_the_one_of_the_wheel_comes_first_then_the_variable_then_the_path(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = _program(tmp_path / "path")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert executable() == on_path
    named = _program(tmp_path / "named")
    monkeypatch.setenv("HARNESS", str(named))
    assert executable() == named
    carried = _program(tmp_path / "wheel")
    assert executable() == carried


def test_one_of_the_current_directory_is_never_taken(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ["", ".", os.pathsep, f"{os.pathsep}/nonexistent", "..", f"..{os.sep}here"]:
        monkeypatch.setenv("PATH", path)
        with pytest.raises(FileNotFoundError, match="harness is not installed"):
            executable()
    monkeypatch.setenv("HARNESS", "./harness")
    with pytest.raises(FileNotFoundError, match="not the absolute path"):
        executable()


def test_a_file_that_cannot_be_executed_is_none(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(tmp_path / "path").chmod(0o644)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    with pytest.raises(FileNotFoundError):
        executable()
