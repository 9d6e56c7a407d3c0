// SPDX-License-Identifier: MIT OR Apache-2.0
//! `harness chip suggest`: the chip that an image is for, by its names, or by the addresses of peripherals in its code.

use serde_json::Value;

use super::*;

fn suggested(firmware: &Path, args: &[&str]) -> Output {
    harness().args(["chip", "suggest"]).arg(firmware).args(args).output().unwrap()
}

fn json(firmware: &Path, args: &[&str]) -> Value {
    let output = suggested(firmware, &[args, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(firmware: &Path) -> String {
    let output = suggested(firmware, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Firmware that writes the first register at each address and waits for a bit of the last, as of a PLL, without a name of a
/// chip in its file.
fn writing(dir: &Path, flash: u64, addresses: &[u32]) -> PathBuf {
    let words: String = addresses.iter().map(|address| format!("(volatile unsigned *){address:#x}, ")).collect();
    let source = format!(
        "static volatile unsigned *const at[] = {{ {words} 0 }};\n\
         void reset(void) {{ volatile unsigned *last = 0; for (volatile unsigned *const *to = at; *to; to++) *(last = *to) = 1;\n\
         while (last && !(*last & 0x2000000)); for (;;); }}"
    );
    cortex_m("-mcpu=cortex-m3 -O1", flash, 0x2000_0000, 0x2000_2000).build_source(dir, "writing", &source)
}

/// Peripherals of STM32F1 (RM0008, table 3): TIM2, TIM3, TIM4, USART2, I2C1, AFIO, GPIOA, GPIOB, GPIOD, USART1, DMA1, RCC.
/// The STM32L1 has peripherals at these addresses, too, but for GPIOD's.
pub(super) const STM32F1: [u32; 12] = [
    0x4000_0000,
    0x4000_0400,
    0x4000_0800,
    0x4000_4400,
    0x4000_5400,
    0x4001_0000,
    0x4001_0800,
    0x4001_0c00,
    0x4001_1400,
    0x4001_3800,
    0x4002_0000,
    0x4002_1000,
];

#[test]
fn an_image_that_names_its_chip_is_for_it() {
    let said = text(&image("chips/stm32f407-kinds"));
    assert!(said.starts_with("It is built for the chip stm32f407, which the image names"), "{said}");
    assert!(said.ends_with(".elf --chip stm32f407\n"), "{said}");
    let document = json(&image("chips/nrf52840-kinds"), &[]);
    assert_eq!((&document["likelihood"], &document["best"][0]), (&"named".into(), &"nrf52840".into()));
}

#[test]
fn an_image_without_names_points_to_its_chip_by_its_peripherals() {
    let dir = scratch();
    let elf = writing(dir.path(), 0x0800_0000, &STM32F1);
    let document = json(&elf, &[]);
    assert_eq!(document["likelihood"], "likely", "{document}");
    assert_eq!(document["best"], serde_json::json!(["stm32f103", "stm32f103xe"]));
    assert_eq!((&document["peripherals"], &document["chips"][0]["peripherals"]), (&12.into(), &12.into()));
    // A raw binary has no more than the words.
    let binary = dir.path().join("raw.bin");
    let mut objcopy = Command::new("arm-none-eabi-objcopy");
    built::run(objcopy.args(["-O", "binary"]).arg(&elf).arg(&binary));
    let placed = ["--load-addr", "0x08000000"];
    assert_eq!(json(&binary, &placed)["best"], document["best"]);
    let said = String::from_utf8(suggested(&binary, &placed).stdout).unwrap();
    assert!(said.ends_with("raw.bin --load-addr 0x08000000 --chip stm32f103\n"), "{said}");
    // A peripheral that only another family has: the chip is one that is not described.
    let other = json(&writing(dir.path(), 0x0800_0000, &[&STM32F1[..], &[0x4002_3800]].concat()), &[]);
    assert_eq!((&other["likelihood"], &other["peripherals"]), (&"possible".into(), &13.into()), "{other}");
}

#[test]
fn what_points_to_no_chip_is_learned() {
    let dir = scratch();
    let elf = writing(dir.path(), 0x0800_0000, &[]);
    let said = text(&elf);
    assert!(said.starts_with("Nothing in it points to a chip"), "{said}");
    assert!(said.contains("\nnext: harness chip learn "), "{said}");
    assert_eq!(json(&elf, &[])["likelihood"], Value::Null);
}

#[test]
fn a_run_that_lacks_its_chip_says_which_is_likely() {
    let dir = scratch();
    let said = run_file(&writing(dir.path(), 0, &STM32F1), &["--for", "1M"]);
    let notes = [said.stdout, said.stderr].concat();
    let words = "likely built for the chip stm32f103 or stm32f103xe, by the addresses of 12 peripherals in its code: \
                 `--chip stm32f103` runs it there";
    assert!(notes.contains(words), "{notes}");
}
