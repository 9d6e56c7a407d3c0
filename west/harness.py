# SPDX-License-Identifier: MIT OR Apache-2.0
"""`west harness`: runs what `west build` or twister built, without hardware, and shows where its instructions go.

It finds the ELF file and the board in the build directory, tells harness the machine or chip where harness cannot know
it, and passes everything else on. See docs/zephyr.md.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import webbrowser
from pathlib import Path

from west.commands import CommandError, WestCommand

# Options for the boards whose machine or chip harness does not find by the ELF file alone: the board's name as Zephyr
# has it now or had it before its hardware model 2, up to the first slash.
BOARDS = {
    "96b_carbon": ["--chip", "stm32f407"],
    "b_l475e_iot01a": ["--machine", "b-l475e-iot01a"],
    "bbc_microbit": ["--machine", "microbit"],
    "bbc_microbit_v2": ["--chip", "nrf52833"],
    "disco_l475_iot1": ["--machine", "b-l475e-iot01a"],
    "hifive1": ["--machine", "sifive_e"],
    "mps2": {
        "an385": ["--machine", "mps2-an385"],
        "an386": ["--machine", "mps2-an386"],
        "an500": ["--machine", "mps2-an500"],
        "an521": ["--machine", "mps2-an521"],
    },
    "mps2_an385": ["--machine", "mps2-an385"],
    "mps2_an521": ["--machine", "mps2-an521"],
    "mps3": {"an547": ["--machine", "mps3-an547"], "corstone300": ["--machine", "mps3-an547"]},
    "mps3_an547": ["--machine", "mps3-an547"],
    "nrf52840dk": ["--chip", "nrf52840"],
    "nrf52840dk_nrf52840": ["--chip", "nrf52840"],
    "nrf52840dongle": ["--chip", "nrf52840"],
    "nrf52840dongle_nrf52840": ["--chip", "nrf52840"],
    "nrf52833dk": ["--chip", "nrf52833"],
    "nrf52833dk_nrf52833": ["--chip", "nrf52833"],
    "nrf52dk": ["--chip", "nrf52832"],
    "nrf52dk_nrf52832": ["--chip", "nrf52832"],
    "nucleo_f103rb": ["--chip", "stm32f103"],
    "nucleo_l476rg": ["--chip", "stm32l476"],
    "olimex_stm32_h405": ["--machine", "olimex-stm32-h405"],
    "qemu_cortex_m0": ["--machine", "microbit"],
    "qemu_cortex_m3": ["--machine", "lm3s6965evb"],
    "rpi_pico": ["--chip", "rp2040"],
    "stm32_min_dev": ["--chip", "stm32f103"],
    "stm32f4_disco": ["--chip", "stm32f407"],
    "stm32vl_disco": ["--machine", "stm32vldiscovery"],
}

# Options of harness that say when the run ends. Zephyr's applications do not end by themselves.
ENDS = ("--for", "--until", "--max-insns", "--timeout")
WINDOW = "50M"
# The function that ztest calls once all tests have run.
TESTS_ARE_OVER = "ztest_verify_all_test_suites_ran"

DESCRIPTION = """\
Runs build/zephyr/zephyr.elf on an emulated machine, counts every instruction, and writes a page for the browser. Options
that this command does not have are harness's: `west harness --for 20M --timeline`. With --twister it runs all images of
a twister-out directory (twister --build-only), with a row for each ztest case."""


def mistake(what):
    """Ends the command: what happened, and what to do next."""
    print(f"west harness: {what}", file=sys.stderr)
    raise CommandError(2)


def options_for(board):
    """harness's options for a board; None: harness chooses by the ELF file."""
    name, *qualifiers = board.split("/")
    options = BOARDS.get(name.split("@")[0])
    if isinstance(options, dict):
        return next((options[each] for each in qualifiers if each in options), None)
    return options


def cached(cache, name):
    """The value of a variable in CMakeCache.txt."""
    found = re.search(rf"^{name}:\w+=(.+)$", cache, re.MULTILINE)
    return found and found.group(1).strip()


def board_of(build):
    """The board that a directory was built for, with its qualifiers; None: the directory does not say."""
    try:
        info = (build / "build_info.yml").read_text(errors="replace")
        found = re.search(r"^  board:\n((?:    .*\n)+)", info, re.MULTILINE)
        lines = dict(re.findall(r"^    (\w+): *(\S+)$", found.group(1), re.MULTILINE)) if found else {}
        if "name" in lines:
            return "/".join(lines[key] for key in ("name", "qualifiers") if key in lines)
    except OSError:
        pass
    try:
        cache = (build / "CMakeCache.txt").read_text(errors="replace")
    except OSError:
        return None
    name, qualifiers = cached(cache, "CACHED_BOARD") or cached(cache, "BOARD"), cached(cache, "BOARD_QUALIFIERS")
    return name + qualifiers if name and "/" not in name and qualifiers else name


def application_of(build):
    """The directory of the application within a build directory: with sysbuild, that of its default domain."""
    try:
        domains = (build / "domains.yaml").read_text(errors="replace")
    except OSError:
        return build
    found = re.search(r"^default: *(\S+)$", domains, re.MULTILINE)
    return build / found.group(1) if found else build


def window_of(elf):
    """When an application's run ends, as keys of a suite: after the tests, or after a number of instructions."""
    window = {"for": WINDOW}
    if f"\0{TESTS_ARE_OVER}\0".encode() in elf.read_bytes():
        window["until"] = TESTS_ARE_OVER
    return window


class Harness(WestCommand):
    """The command."""

    def __init__(self):
        super().__init__("harness", "run a built application without hardware", DESCRIPTION, accepts_unknown_args=True)

    def do_add_parser(self, parser_adder):
        parser = parser_adder.add_parser(
            self.name, allow_abbrev=False, help=self.help, description=self.description,
            formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("-d", "--build-dir", default="build", help="build directory (build)")
        parser.add_argument("--board", help="board, if the build directory does not say it or another one is meant")
        parser.add_argument("--open", action="store_true", help="open the page in the browser")
        parser.add_argument("--twister", metavar="DIR", help="run all images below twister's output directory")
        parser.add_argument("--save-baseline", metavar="NAME", help="with --twister: keep the numbers under a name")
        parser.add_argument("--baseline", metavar="NAME", help="with --twister: compare with the numbers of that name")
        return parser

    def do_run(self, args, unknown):
        program = os.environ.get("HARNESS") or shutil.which("harness")
        if not program:
            mistake("harness is not on the PATH; install it, or name the program in the variable HARNESS")
        others = [word for word in unknown if word != "--"]
        if args.twister:
            self.suite(program, args, others)
        else:
            self.image(program, args, others)

    def image(self, program, args, others):
        """Runs one image, and writes its page."""
        build = application_of(Path(args.build_dir))
        elf = build / "zephyr" / "zephyr.elf"
        if not elf.is_file():
            mistake(f"there is no {elf}; run `west build -b BOARD APPLICATION` first, or name its directory with -d")
        board = args.board or board_of(build)
        options = self.options(board, others)
        if not any(word.split("=")[0] in ENDS for word in others):
            options += [word for key, value in window_of(elf).items() for word in (f"--{key}", value)]
        profile = build / "harness.profile"
        self.run_harness([program, str(elf), "-o", str(profile), *options, *others])
        page = build / "harness.html"
        self.run_harness([program, "report", str(profile), "-o", str(page)])
        if args.open:
            webbrowser.open(page.resolve().as_uri())

    def options(self, board, others):
        """Options for a board, unless the user names a machine or chip."""
        if any(word.split("=")[0] in ("--machine", "--chip") for word in others):
            return []
        options = options_for(board) if board else None
        if options is None:
            named = f"board {board} is not in this command's table" if board else "the build directory names no board"
            print(f"west harness: {named}; harness chooses the machine (--machine or --chip says another)", file=sys.stderr)
        return list(options or [])

    def run_harness(self, command):
        """Runs harness; a failure's exit code is this command's."""
        code = subprocess.call(command)
        if code:
            raise CommandError(code)

    def suite(self, program, args, others):
        """Runs all images of twister as a suite, and writes their test cases."""
        root = Path(args.twister)
        images = sorted(root.glob("**/zephyr/zephyr.elf"))
        if not images:
            mistake(f"there is no zephyr.elf below {root}; run `west twister --build-only -p BOARD -T TESTS` first")
        suite = root / "harness.toml"
        lines = ["# Made by `west harness --twister`.", f'name = "{root.name}"', "", "[defaults]"]
        lines += ['exit = "any"', ""]
        names = {}
        for elf in images:
            build = elf.parent.parent
            name = str(build.relative_to(root)).replace(os.sep, ".")
            names[name] = build
            lines += ["[[image]]", f"elf = {json.dumps(str(elf.relative_to(root)))}", f"name = {json.dumps(name)}"]
            options = self.options(board_of(build), others)
            keys = window_of(elf) | {key[2:]: value for key, value in zip(options[::2], options[1::2])}
            lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
            lines.append("")
        suite.write_text("\n".join(lines))
        reports = root / "harness-report"
        command = [program, "test", str(suite), "-o", str(reports), *others]
        for option in ("save-baseline", "baseline"):
            value = getattr(args, option.replace("-", "_"))
            command += [f"--{option}", value] if value else []
        code = subprocess.call(command)
        self.cases(program, reports, names, root)
        print(f"summary in {reports / 'summary.md'}")
        if code:
            raise CommandError(code)

    def cases(self, program, reports, names, root):
        """Writes a row for each test case: its instructions, and how often it ran and did not return."""
        rows = []
        for name, build in names.items():
            profile = reports / f"{name}.profile"
            if not profile.is_dir():
                continue
            found = subprocess.run([program, "export", str(profile), "-f", "json", "-o", "-"], capture_output=True)
            if found.returncode:
                sys.stderr.write(found.stderr.decode(errors="replace"))
                continue
            for zone in json.loads(found.stdout)["zones"]:
                if zone["is_call"]:
                    counts = zone["all"]
                    rows.append({
                        "image": name, "board": board_of(build), "case": zone["name"], "times": counts["calls"],
                        "instructions": counts["elapsed_insns"], "own_instructions": counts["total_insns"],
                        "left": counts["left"] + counts["open"]})
        path = root / "harness-cases.json"
        path.write_text(json.dumps(rows, indent=1) + "\n")
        print(f"{len(rows)} test cases in {path}")
