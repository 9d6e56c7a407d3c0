// SPDX-License-Identifier: MIT OR Apache-2.0
//! Examples of each command, shown in its help: a line to copy, with its purpose. A test parses each example.

/// Examples of the program itself.
pub(super) const HARNESS: &str = "\
Examples:
  harness build/firmware.elf --for 50M      # run it, and see where its instructions go
  harness report firmware.profile --open    # look around in it, in the browser";

pub(super) const PROFILE: &str = "\
Examples:
  harness profile build/firmware.elf --for 50M -o before.profile
  harness profile build/firmware.elf --from main_loop --until main_loop --exact
  harness profile app.bin --load-addr 0x08000000 --symbols app.elf --json > app.json";

pub(super) const TEST: &str = "\
Examples:
  harness test                              # the nearest harness.toml; `harness init` writes one
  harness test -f 'tag(rtos)' --save-baseline main
  harness test --watch                      # while working on the firmware";

pub(super) const INIT: &str = "\
Examples:
  harness init                              # all firmware below the current directory
  harness init build/app.elf build/boot.elf --for 200M
  harness init --vscode build/app.elf       # tasks and debugger settings for the editor";

pub(super) const DIFF: &str = "\
Examples:
  harness diff before.profile after.profile
  harness diff before.profile after.profile -o diff.svg --top 0";

pub(super) const EXPORT: &str = "\
Examples:
  harness export firmware.profile --format callgrind -o callgrind.out
  harness export firmware.profile -f folded | grep crc32
  harness export                            # list the formats";

pub(super) const TOP: &str = "\
Examples:
  harness top firmware.profile --top 50
  harness top firmware.profile --sort inclusive";

pub(super) const ANNOTATE: &str = "\
Examples:
  harness annotate firmware.profile crc32
  harness annotate firmware.profile 0x80000566 --source-map /build=.";

pub(super) const COVERAGE: &str = "\
Examples:
  harness coverage harness-report           # all images of a suite together
  harness coverage firmware.profile --since main
  harness coverage a.profile b.profile --format lcov -o firmware.info";

pub(super) const BINS: &str = "\
Examples:
  harness bins firmware.profile --bin-bytes 64 --by count
  harness bins firmware.profile --json > bins.json";

pub(super) const HEAP: &str = "\
Examples:
  harness heap firmware.profile             # made with: harness firmware.elf --heap
  harness heap firmware.profile --of leaked -o leaks.svg";

pub(super) const SIZE: &str = "\
Examples:
  harness size build/firmware.elf --regions link.ld -o size.html
  harness size build/firmware.elf --map build/firmware.map --by library
  harness size before.elf after.elf --markdown
  harness size build/firmware.elf --profile firmware.profile --by symbol --top 50";

pub(super) const STACK: &str = "\
Examples:
  harness stack build/firmware.elf firmware.profile
  harness stack build/firmware.elf *.profile --bounds stack.toml --su build
  harness stack build/firmware.elf --json > stack.json";

pub(super) const BUDGET: &str = "\
Examples:
  harness budget build/firmware.elf firmware.profile           # [budget] of the nearest harness.toml
  harness budget build/firmware.elf firmware.profile --budget budget.toml --markdown --junit budget.xml";

pub(super) const CALLERS: &str = "\
Examples:
  harness callers firmware.profile memcpy
  harness callers firmware.profile uart.c:init --depth 3";

pub(super) const REPORT: &str = "\
Examples:
  harness report firmware.profile --open
  harness report firmware.profile -o page.html --source-map /build=.
  harness report harness-report --open      # a suite: what failed first";

pub(super) const UI: &str = "\
Examples:
  harness ui firmware.profile               # ? shows the keys
  harness ui before.profile after.profile   # what changed, largest change first";

pub(super) const SERVE: &str = "\
Examples:
  harness serve firmware.profile --open
  harness serve build/firmware.elf --for 50M   # runs again whenever it is built";

pub(super) const MERGE: &str = "\
Examples:
  harness merge part1 part2 part3 part4
  harness merge shards/1 shards/2 -o harness-report";

pub(super) const HISTORY: &str = "\
Examples:
  harness history results -o history.html   # results/COMMIT/report.json, as CI keeps them
  harness history results -f uart --metric total --metric 'self(\"crc*\")'";

pub(super) const RUN: &str = "\
Examples:
  harness run target/thumbv7m-none-eabi/release/app --nocapture
  harness run --for 50M --json run.json build/firmware.elf one two";

pub(super) const DOCTOR: &str = "\
Examples:
  harness doctor
  harness doctor --json";

pub(super) const LIST: &str = "\
Examples:
  harness list machines                     # memory, as linker scripts have it
  harness list functions build/firmware.elf | grep uart";

pub(super) const CHIP: &str = "\
Examples:
  harness chip learn build/firmware.elf -o chip.toml   # then: --chip chip.toml
  harness chip learn app.bin --load-addr 0x08000000 --symbols app.elf";

pub(super) const CHIP_SUGGEST: &str = "\
Examples:
  harness chip suggest build/firmware.elf
  harness chip suggest app.bin --load-addr 0x08000000 --json";

pub(super) const CHIP_SHOW: &str = "\
Examples:
  harness build/firmware.elf --chip stm32f407 -o firmware.profile
  harness chip show firmware.profile --top 0";

pub(super) const CHIP_CHECK: &str = "\
Examples:
  harness chip check mychip.toml --svd STM32F412.svd
  harness chip check --file-schema > chip.schema.json";

pub(super) const DEBUG: &str = "\
Examples:
  harness debug firmware.profile --at crash --gdb
  harness debug build/firmware.elf --at max:uart_irq";

pub(super) const COMPLETIONS: &str = "\
Examples:
  harness completions bash > ~/.local/share/bash-completion/completions/harness
  harness completions fish > ~/.config/fish/completions/harness.fish";

pub(super) const MAN: &str = "\
Examples:
  harness man | man -l -
  harness man ~/.local/share/man/man1";

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use crate::cli::Cli;

    /// Splits a line as a shell does, up to a comment, pipe or redirection.
    fn words(line: &str) -> Vec<String> {
        let line = line.split(" # ").next().unwrap_or_default().split(['|', '>']).next().unwrap_or_default();
        let quoted = line.split('\'').enumerate().flat_map(|(index, part)| match index % 2 {
            1 => vec![part.to_owned()],
            _ => part.split_whitespace().map(str::to_owned).collect(),
        });
        quoted.collect()
    }

    #[test]
    fn each_command_has_two_examples_or_more_and_each_of_them_is_understood() {
        let mut cli = Cli::command();
        cli.build();
        let hidden = ["help"];
        let commands: Vec<_> =
            cli.get_subcommands().filter(|command| !hidden.contains(&command.get_name())).collect();
        assert!(commands.len() > 15, "{}", commands.len());
        for command in commands.into_iter().chain([&cli]) {
            let name = command.get_name();
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> = help.lines().filter(|line| line.starts_with("  harness ")).collect();
            assert!(help.contains("Examples:\n") && examples.len() >= 2, "{name}: {help}");
            for example in examples {
                let words = words(example);
                let parsed = Cli::try_parse_from(&words);
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
                assert!(command.get_name() == "harness" || words[1] == name, "{example} is not an example of {name}");
            }
        }
    }
}
