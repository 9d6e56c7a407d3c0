// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: `harness serve` gives the page to who has the URL, and to nobody else; and the page is new when its
//! profile or its firmware is.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::common::{image, viewer};

/// A server that ends with the test.
struct Server {
    child: Child,
    port: u16,
    token: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(dir: &Path, words: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
        command.arg("serve").args(words).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let rest = line.trim_end().strip_prefix("http://127.0.0.1:").unwrap_or_else(|| panic!("{line:?}"));
        let (port, token) = rest.split_once('/').unwrap();
        Server { child, port: port.parse().unwrap(), token: token.trim_end_matches('/').to_owned() }
    }

    /// Status line, headers and body of the answer to some bytes.
    fn ask(&self, request: &str) -> (String, String, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        let (status, headers) = head.split_once("\r\n").unwrap();
        (status.to_owned(), headers.to_owned(), body.to_owned())
    }

    fn get_as(&self, path: &str, host: &str) -> (String, String, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\n\r\n"))
    }

    fn get(&self, page: &str) -> String {
        let (status, _, body) = self.get_as(&format!("/{}/{page}", self.token), &format!("127.0.0.1:{}", self.port));
        assert_eq!(status, "HTTP/1.1 200 OK", "{page}");
        body
    }

    /// Waits for an answer that is as expected.
    #[track_caller]
    fn until(&self, page: &str, is_so: impl Fn(&str) -> bool) -> String {
        let begin = Instant::now();
        loop {
            let body = self.get(page);
            if is_so(&body) {
                return body;
            }
            assert!(begin.elapsed() < Duration::from_secs(120), "{page} stays {body}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn end(&mut self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

fn profile(dir: &Path, name: &str, into: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
    command.arg(image(name)).args(["-q", "--for", "200k", "-o", into]).current_dir(dir);
    assert_eq!(command.status().unwrap().code(), Some(0));
}

#[test]
fn only_the_url_that_was_printed_gets_the_page() {
    let temp = tempfile::tempdir().unwrap();
    profile(temp.path(), "riscv64-exit0", "fw.profile");
    let mut server = Server::start(temp.path(), &["fw.profile"]);
    let (token, host) = (server.token.clone(), format!("127.0.0.1:{}", server.port));
    assert!(token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
    let around = server.get("");
    assert!(around.contains("<iframe") && around.contains("connect-src 'self'"), "{around}");
    let page = server.get("page");
    assert!(page.contains("riscv64-exit0.elf") && page.contains("default-src 'none'"), "the report's own policy");
    assert_eq!(server.get("number"), "1\n");
    let (_, headers, _) = server.get_as(&format!("/{token}/page"), &host);
    for header in ["Cache-Control: no-store", "Referrer-Policy: no-referrer", "X-Content-Type-Options: nosniff"] {
        assert!(headers.contains(header), "{headers}");
    }
    let wrong: String = token.chars().rev().collect();
    let status = |path: &str, host: &str| server.get_as(path, host).0;
    for path in
        ["/", "/page", &format!("/{wrong}/page"), &format!("/{}/page", &token[1..]), "/fw.profile/profile.fwp"]
    {
        assert_eq!(status(path, &host), "HTTP/1.1 403 Forbidden", "{path}");
    }
    for path in ["../fw.profile/profile.fwp", "/etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "profile.fwp", "page/"] {
        assert_eq!(status(&format!("/{token}/{path}"), &host), "HTTP/1.1 404 Not Found", "{path}");
    }
    for other in ["evil.example", &format!("evil.example:{}", server.port), "127.0.0.1", "[::1]"] {
        assert_eq!(status(&format!("/{token}/page"), other), "HTTP/1.1 421 Misdirected Request", "{other}");
    }
    let post = format!("POST /{token}/page HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(server.ask(&post).0, "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(server.ask("nonsense\r\n\r\n").0, "HTTP/1.1 400 Bad Request");
    // Another server has another token.
    assert_ne!(Server::start(temp.path(), &["fw.profile"]).token, token);
    server.end(Signal::SIGINT);
}

#[test]
fn a_profile_that_is_made_again_is_a_new_page() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    profile(dir, "riscv64-exit0", "fw.profile");
    profile(dir, "riscv64-bare", "next.profile");
    let mut server = Server::start(dir, &["fw.profile"]);
    let saved = |name: &str| dir.join(name).join("profile.fwp");
    fs::write(dir.join("damaged"), "fwprof\x16\n and nothing").unwrap();
    fs::rename(dir.join("damaged"), saved("fw.profile")).unwrap();
    let said = server.until("number", |text| text != "1\n");
    assert!(said.starts_with("1\n") && said.contains("fw.profile"), "{said}");
    assert!(server.get("page").contains("riscv64-exit0.elf"), "the page stays");
    fs::rename(saved("next.profile"), saved("fw.profile")).unwrap();
    server.until("number", |text| text == "2\n");
    assert!(server.get("page").contains("riscv64-bare.elf"));
    server.end(Signal::SIGTERM);
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn a_browser_shows_the_next_page_by_itself_at_the_same_place() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    profile(dir, "riscv64-exit0", "fw.profile");
    profile(dir, "riscv64-bare", "next.profile");
    let server = Server::start(dir, &["fw.profile"]);
    let url = format!("http://127.0.0.1:{}/{}/", server.port, server.token);
    let saved = |name: &str| dir.join(name).join("profile.fwp").display().to_string();
    let seen = viewer("serve.mjs", &[&url, &saved("next.profile"), &saved("fw.profile")]);
    assert_eq!(seen["titles"], json!(["riscv64-exit0.elf: profile", "riscv64-bare.elf: profile"]));
    assert_eq!(seen["function"], "main");
    assert_eq!(seen["places"], json!(["#f=main", "#f=main"]));
}

#[test]
fn firmware_that_is_built_again_is_run_again() {
    let temp = tempfile::tempdir().unwrap();
    let elf = temp.path().join("fw.elf");
    fs::copy(image("riscv64-exit0"), &elf).unwrap();
    let mut server = Server::start(temp.path(), &["fw.elf", "--for", "200k"]);
    let first = server.get("page");
    fs::copy(image("riscv64-bare"), temp.path().join("next.elf")).unwrap();
    fs::rename(temp.path().join("next.elf"), &elf).unwrap();
    server.until("number", |text| text.starts_with("2\n"));
    assert_ne!(server.get("page"), first);
    server.end(Signal::SIGINT);
    let left: Vec<_> = fs::read_dir(temp.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["fw.elf"], "the run leaves no files");
}

#[test]
fn what_cannot_be_served_is_said_at_once() {
    let temp = tempfile::tempdir().unwrap();
    profile(temp.path(), "riscv64-exit0", "fw.profile");
    let server = Server::start(temp.path(), &["fw.profile"]);
    for (words, what) in
        [(&["missing.elf"][..], "missing.elf"), (&["fw.profile", "--port", &server.port.to_string()], "--port")]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_harness"));
        let output = command.arg("serve").args(words).current_dir(&temp).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(what), "{stderr}");
    }
}
