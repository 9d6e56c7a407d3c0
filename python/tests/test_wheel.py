# SPDX-License-Identifier: MIT OR Apache-2.0
"""The wheel: deterministic, with a true RECORD, and installed by pip with its programs executable and without links."""

import base64
import hashlib
import os
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest

import wheel_backend
from harness import executable


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle in its layout: programs, a library, documents, and a link as Debian's licences have it."""
    root = tmp_path / "harness-0.1.0-x86_64-linux"
    for folder in ("bin", "libexec/harness/lib", "share/doc/harness"):
        (root / folder).mkdir(parents=True)
    program = root / "bin" / "harness"
    program.write_text(f'#!/bin/sh\nexec "{executable()}" "$@"\n')
    program.chmod(0o755)
    (root / "libexec/harness/qemu-system-arm").write_text("#!/bin/sh\n")
    (root / "libexec/harness/qemu-system-arm").chmod(0o755)
    (root / "libexec/harness/lib/libc.so.6").write_bytes(b"\x7fELF")
    (root / "share/doc/harness/GPL-2").write_text("text\n")
    (root / "share/doc/harness/GPL").symlink_to("GPL-2")
    return root


def test_the_same_files_give_the_same_bytes_and_a_true_record(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1600000000")
    made = []
    for turn in ("one", "two"):
        folder = tmp_path / turn
        folder.mkdir()
        made.append(wheel_backend.make(folder, bundle))
        os.utime(bundle / "bin" / "harness", (0, 0))
    assert made[0].read_bytes() == made[1].read_bytes()
    version = wheel_backend.version()
    assert made[0].name == f"harness-{version}-py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl"
    with zipfile.ZipFile(made[0]) as wheel:
        names = wheel.namelist()
        record = dict(
            (line.split(",")[0], line.split(",")[1:]) for line in wheel.read(names[-1]).decode().splitlines()
        )
        assert names[-1].endswith("/RECORD") and sorted(record) == sorted(names)
        for name in names[:-1]:
            content = wheel.read(name)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert record[name] == [f"sha256={digest}", str(len(content))]
        assert {info.date_time for info in wheel.infolist()} == {(2020, 9, 13, 12, 26, 40)}
        modes = {info.filename: info.external_attr >> 16 for info in wheel.infolist()}
    assert modes["harness/bundle/bin/harness"] == 0o100755
    assert modes["harness/bundle/libexec/harness/lib/libc.so.6"] == 0o100644
    # No link: those have another type.
    assert {mode & 0o170000 for mode in modes.values()} == {0o100000}


def test_a_link_out_of_the_bundle_is_refused(bundle: Path, tmp_path: Path) -> None:
    (bundle / "bin" / "shadow").symlink_to("/etc/shadow")
    with pytest.raises(SystemExit, match="points out of the bundle"):
        wheel_backend.make(tmp_path, bundle)


def test_pip_installs_the_command_the_package_and_the_plugin(bundle: Path, tmp_path: Path) -> None:
    wheel = wheel_backend.make(tmp_path, bundle)
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / "bin"
    install = [str(programs / "pip"), "install", "--quiet", "--no-index", "--disable-pip-version-check", str(wheel)]
    subprocess.run(install, check=True)
    # Neither the package of the repository nor the harness of the tests.
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "HARNESS")}
    asked = [str(programs / "harness"), "--version"]
    version = subprocess.run(asked, env=environment, check=True, stdout=subprocess.PIPE).stdout
    assert version == subprocess.run([str(executable()), "--version"], check=True, stdout=subprocess.PIPE).stdout
    code = (
        "import harness, importlib.metadata as m\n"
        "print(harness.executable())\n"
        "print([e.value for e in m.distribution('harness').entry_points if e.group == 'pytest11'])\n"
    )
    imported = [str(programs / "python"), "-X", "importtime", "-c", "import harness_program"]
    times = subprocess.run(imported, env=environment, check=True, stderr=subprocess.PIPE, cwd=tmp_path).stderr.decode()
    # The command does not wait for what the package imports.
    assert "harness_program" in times and "subprocess" not in times and "dataclasses" not in times
    told = [str(programs / "python"), "-c", code]
    done = subprocess.run(told, env=environment, check=True, stdout=subprocess.PIPE, cwd=tmp_path)
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith(str(tmp_path / "venv")) and lines[0].endswith("harness/bundle/bin/harness")
    assert lines[1] == "['harness.pytest_plugin']"
