# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the wheel: by hand, since it carries programs that no build tool knows, and has the same bytes every time.

pip calls `build_wheel` for `pip install ./python`: the package alone, which finds harness by $HARNESS or the PATH. ci/wheel
runs this file with an unpacked bundle, which the wheel then carries.
Usage: wheel_backend.py DIRECTORY [BUNDLE]
"""

import base64
import hashlib
import os
import re
import stat
import sys
import time
import zipfile
from pathlib import Path
from typing import Dict, List, Mapping, NamedTuple, Optional

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent

#: Names of the C libraries that the bundle runs on: on any, but wheels have to name them.
PLATFORMS = ("manylinux_2_17", "musllinux_1_1")

#: The earliest time that a zip archive can hold.
EARLIEST = 315532800


class Member(NamedTuple):
    """File of the wheel."""

    content: bytes
    is_program: bool


def _project() -> Dict[str, str]:
    text = (HERE / "pyproject.toml").read_text()
    found = dict(re.findall(r'^([a-z-]+) = "([^"]*)"$', text, re.MULTILINE))
    return {key: found[key] for key in ("name", "description", "requires-python")}


def _entry_points() -> str:
    """The tables of entry points, in the form that an installed package has them."""
    text = (HERE / "pyproject.toml").read_text()
    scripts = re.search(r"^\[project\.scripts\]\n((?:\S+ = .*\n)+)", text, re.MULTILINE)
    plugins = re.search(r"^\[project\.entry-points\.pytest11\]\n((?:\S+ = .*\n)+)", text, re.MULTILINE)
    assert scripts and plugins
    return f"[console_scripts]\n{scripts[1]}\n[pytest11]\n{plugins[1]}".replace('"', "")


def version() -> str:
    """Version of the workspace, as Python writes it: 1.2.0-rc.1 is 1.2.0rc1."""
    found = re.search(r'^version = "([^"]*)"$', (REPOSITORY / "Cargo.toml").read_text(), re.MULTILINE)
    assert found
    for cargo, python in (("-alpha.", "a"), ("-beta.", "b"), ("-rc.", "rc")):
        if cargo in found[1]:
            return found[1].replace(cargo, python)
    return found[1]


def _folder(folder: Path) -> Dict[str, Member]:
    """Files of a folder by their path in it; a link is what it points to, which has to lie in the folder, too."""
    members: Dict[str, Member] = {}
    for parent, folders, files in os.walk(folder):
        if not folders and not files:
            sys.exit(f"{parent}: a wheel holds no empty folder")
        for name in files:
            path = Path(parent, name)
            real = path.resolve()
            if folder.resolve() not in real.parents:
                sys.exit(f"{path}: points out of the bundle, to {real}")
            is_program = bool(real.stat().st_mode & stat.S_IXUSR)
            members[path.relative_to(folder).as_posix()] = Member(real.read_bytes(), is_program)
        links = [name for name in folders if Path(parent, name).is_symlink()]
        if links:
            sys.exit(f"{parent}/{links[0]}: a link to a folder")
    return members


def _package() -> Dict[str, Member]:
    files = [path for path in (HERE / "harness").iterdir() if path.suffix == ".py" or path.name == "py.typed"]
    files.append(HERE / "harness_program.py")
    return {path.relative_to(HERE).as_posix(): Member(path.read_bytes(), False) for path in files}


def _metadata(has_bundle: bool) -> str:
    project = _project()
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {version()}",
        f"Summary: {project['description']}",
        "License: MIT OR Apache-2.0" + ("; QEMU and what it needs: see harness/bundle/share/doc" if has_bundle else ""),
        f"Requires-Python: {project['requires-python']}",
        "Classifier: Framework :: Pytest",
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Programming Language :: Python :: 3",
        "Classifier: Topic :: Software Development :: Embedded Systems",
        "Classifier: Typing :: Typed",
        "Description-Content-Type: text/markdown",
        "",
        (HERE / "README.md").read_text(),
    ]
    return "\n".join(lines)


def _digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _write(path: Path, members: Mapping[str, Member]) -> None:
    epoch = max(EARLIEST, int(os.environ.get("SOURCE_DATE_EPOCH", EARLIEST)))
    moment = time.gmtime(epoch)[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, member in members.items():
            info = zipfile.ZipInfo(name, moment)
            info.create_system = 3
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (stat.S_IFREG | (0o755 if member.is_program else 0o644)) << 16
            wheel.writestr(info, member.content)


def make(directory: Path, bundle: Optional[Path]) -> Path:
    """Writes the wheel, with a bundle that was unpacked, or without one, and returns its path."""
    name = _project()["name"].replace("-", "_")
    tags = ["py3-none-any"]
    members = _package()
    if bundle is not None:
        architecture = bundle.name.split("-")[-2]
        tags = [f"py3-none-{platform}_{architecture}" for platform in PLATFORMS]
        members.update({f"harness/bundle/{path}": member for path, member in _folder(bundle).items()})
    members = dict(sorted(members.items()))
    about: Dict[str, str] = {
        "METADATA": _metadata(bundle is not None),
        "WHEEL": "Wheel-Version: 1.0\nGenerator: harness ci/wheel\n"
        + f"Root-Is-Purelib: {'true' if bundle is None else 'false'}\n"
        + "".join(f"Tag: {tag}\n" for tag in tags),
        # Without a bundle the command would find itself on the PATH.
        "entry_points.txt": _entry_points() if bundle is not None else "[pytest11]" + _entry_points().split("[pytest11]")[1],
        "licenses/LICENSE-APACHE": (REPOSITORY / "LICENSE-APACHE").read_text(),
        "licenses/LICENSE-MIT": (REPOSITORY / "LICENSE-MIT").read_text(),
    }
    info = f"{name}-{version()}.dist-info"
    members.update({f"{info}/{file}": Member(text.encode(), False) for file, text in about.items()})
    record: List[str] = [f"{path},{_digest(member.content)},{len(member.content)}" for path, member in members.items()]
    record.append(f"{info}/RECORD,,\n")
    members[f"{info}/RECORD"] = Member("\n".join(record).encode(), False)
    platforms = ".".join(tag.split("-")[2] for tag in tags)
    path = directory / f"{name}-{version()}-py3-none-{platforms}.whl"
    _write(path, members)
    return path


def build_wheel(
    wheel_directory: str, config_settings: object = None, metadata_directory: Optional[str] = None
) -> str:
    """Hook of PEP 517: a wheel of the package alone; returns its name."""
    return make(Path(wheel_directory), None).name


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    """Hook of PEP 517: there is no source distribution."""
    raise SystemExit("no source distribution is made of harness's package: install the folder or a wheel")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    print(make(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) == 3 else None))
