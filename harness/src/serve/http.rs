// SPDX-License-Identifier: MIT OR Apache-2.0
//! The little of HTTP/1.1 that a browser on this machine needs: GET of three paths, each behind a secret token.
//!
//! Any program of this machine can connect to the port, and any page in the browser can have it requested. So a request
//! is answered only if it names the token, which is in the URL that was printed, and if its Host is this server: a
//! page of another site that has its own name point here (DNS rebinding) sends its own Host. Nothing is read from the
//! disk for a request.
//!
//! A request has a limited time as a whole. Where many connections wait with half a request, the oldest is closed for a
//! new one, so programs without the token cannot keep out the browser.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::InputError;

/// Longest request in bytes; browsers send about a kilobyte.
const MOST_REQUEST_BYTES: usize = 16 << 10;

/// Most headers of a request.
const MOST_HEADERS: usize = 100;

/// Longest time for the whole of a request, and longest wait for a browser to take more of its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most connections whose request is not whole yet.
const MOST_WAITING: usize = 64;

/// Most connections at a time; those that wait are closed for a new one before.
const MOST_CONNECTIONS: usize = 256;

/// Bytes of the token before they are written as hexadecimal digits.
const TOKEN_BYTES: usize = 16;

/// Page around the report, which loads it again when there is a new one. The report's own policy forbids requests, so
/// this is a page of its own.
const AROUND: &str = include_str!("around.html");

/// Content that is served at the moment.
#[derive(Clone, Debug, Default)]
struct Content {
    page: Arc<Vec<u8>>,
    /// Number of the page: each new page has the next one.
    number: u64,
    /// Reason why there is no newer page; empty if the page is the newest.
    trouble: String,
}

/// Pages, and the secret of those who may see them.
#[derive(Debug)]
pub struct Site {
    token: String,
    port: u16,
    patience: Duration,
    content: Mutex<Content>,
    waiting: Mutex<Waiting>,
}

/// Connections whose request is not whole yet, the oldest first, each with its number.
#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    streams: VecDeque<(u64, TcpStream)>,
}

impl Waiting {
    /// Adds a connection, and closes the oldest ones beyond the limit. Returns its number.
    fn enter(&mut self, stream: TcpStream) -> u64 {
        while self.streams.len() >= MOST_WAITING {
            // Its own thread notices the end.
            let _ = self.streams.pop_front().map(|(_, oldest)| oldest.shutdown(Shutdown::Both));
        }
        self.last += 1;
        self.streams.push_back((self.last, stream));
        self.last
    }

    fn leave(&mut self, number: u64) {
        self.streams.retain(|(other, _)| *other != number);
    }
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: &'static str,
    kind: &'static str,
    body: Arc<Vec<u8>>,
}

impl Answer {
    fn of(status: &'static str, text: &str) -> Answer {
        Answer { status, kind: "text/plain; charset=utf-8", body: Arc::new(text.as_bytes().to_vec()) }
    }

    fn head(&self) -> String {
        format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nConnection: close\r\n\
             Referrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: SAMEORIGIN\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\nAllow: GET\r\n\r\n",
            self.status,
            self.kind,
            self.body.len()
        )
    }
}

impl Site {
    fn new(token: String, port: u16) -> Site {
        Site { token, port, patience: PATIENCE, content: Mutex::default(), waiting: Mutex::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn content(&self) -> Content {
        self.content.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// URL of the page, with the token.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token)
    }

    /// Shows a new page.
    pub fn show(&self, page: Vec<u8>) {
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        *content = Content { page: Arc::new(page), number: content.number + 1, trouble: String::new() };
    }

    /// Says on the page why there is no newer one.
    pub fn say(&self, trouble: &str) {
        trouble.clone_into(&mut self.content.lock().unwrap_or_else(PoisonError::into_inner).trouble);
    }

    /// Answers the head of a request.
    fn answer(&self, head: &[u8]) -> Answer {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let is_whole = request.parse(head).is_ok_and(|status| status.is_complete());
        let (true, Some(method), Some(path)) = (is_whole, request.method, request.path) else {
            return Answer::of("400 Bad Request", "not a request of HTTP/1.1\n");
        };
        let mut hosts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
        let own = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port));
        let is_own = |header: &httparse::Header<'_>| own.iter().any(|own| own.as_bytes() == header.value);
        if !(hosts.next().is_some_and(is_own) && hosts.next().is_none()) {
            return Answer::of("421 Misdirected Request", "this server is 127.0.0.1, and has no other name\n");
        }
        let rest = path.strip_prefix('/').and_then(|rest| rest.split_once('/'));
        let Some((_, page)) = rest.filter(|(token, _)| self.is_token(token)) else {
            return Answer::of("403 Forbidden", "the URL lacks the token: use the one that harness serve printed\n");
        };
        if method != "GET" {
            return Answer::of("405 Method Not Allowed", "only GET\n");
        }
        let content = self.content();
        match page {
            "" => Answer { kind: "text/html; charset=utf-8", ..Answer::of("200 OK", AROUND) },
            "page" => Answer { status: "200 OK", kind: "text/html; charset=utf-8", body: content.page },
            "number" => Answer::of("200 OK", &format!("{}\n{}", content.number, content.trouble)),
            _ => Answer::of("404 Not Found", "no such page\n"),
        }
    }

    /// Whether this is the token, compared in the same time whatever the first difference is.
    fn is_token(&self, word: &str) -> bool {
        let difference = |sum: u8, (one, other): (u8, u8)| sum | (one ^ other);
        word.len() == self.token.len() && word.bytes().zip(self.token.bytes()).fold(0, difference) == 0
    }

    fn serve(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.set_write_timeout(Some(self.patience))?;
        let until = Instant::now() + self.patience;
        let number = self.waiting().enter(stream.try_clone()?);
        let head = head(stream, |stream| {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(left))
        });
        self.waiting().leave(number);
        let answer = match head? {
            Some(head) => self.answer(&head),
            None => Answer::of("431 Request Header Fields Too Large", "the request is too long\n"),
        };
        stream.write_all(answer.head().as_bytes())?;
        stream.write_all(&answer.body)?;
        stream.shutdown(Shutdown::Write)
    }
}

/// Reads a request up to the empty line that ends its headers; None: it is too long. `wait` is called before each read,
/// and fails once the request has taken too long.
fn head<R: Read>(stream: &mut R, mut wait: impl FnMut(&R) -> io::Result<()>) -> io::Result<Option<Vec<u8>>> {
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while head.len() <= MOST_REQUEST_BYTES {
        wait(stream)?;
        let read = match stream.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        head.extend_from_slice(&buffer[..read]);
        let is_end = head.windows(4).any(|window| window == b"\r\n\r\n") || read == 0;
        if is_end {
            return Ok(Some(head));
        }
    }
    Ok(None)
}

/// Opens a port of this machine, and answers requests on threads of their own from then on. Port 0 picks a free one.
///
/// # Errors
/// When the port is in use, or the system gives no random bytes.
pub fn open(port: u16) -> Result<Arc<Site>, InputError> {
    let cannot = |error: &dyn std::fmt::Display| {
        InputError::new(format!("port {port} of 127.0.0.1 cannot be served: {error}; choose another one with --port"))
    };
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| cannot(&error))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| cannot(&error))?;
    let port = listener.local_addr().map_err(|error| cannot(&error))?.port();
    let token = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let site = Arc::new(Site::new(token, port));
    listen(listener, &site);
    Ok(site)
}

/// Answers the connections of a port on threads of their own.
fn listen(listener: TcpListener, site: &Arc<Site>) {
    let served = Arc::clone(site);
    thread::spawn(move || {
        let connections = Arc::new(AtomicUsize::new(0));
        for mut stream in listener.incoming().flatten() {
            if connections.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
                connections.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (site, connections) = (Arc::clone(&served), Arc::clone(&connections));
            thread::spawn(move || {
                // A browser that goes away has nothing more to be told.
                let _ = site.serve(&mut stream);
                connections.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        let site = Site::new("0123abcd".to_owned(), 8080);
        site.show(b"<p>report".to_vec());
        site
    }

    fn status(request: &str) -> &'static str {
        site().answer(request.as_bytes()).status
    }

    #[test]
    fn only_the_token_and_the_own_host_are_answered() {
        let get = |path: &str, host: &str| status(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let host = "127.0.0.1:8080";
        for path in ["/0123abcd/", "/0123abcd/page", "/0123abcd/number"] {
            assert_eq!(get(path, host), "200 OK", "{path}");
            assert_eq!(get(path, "localhost:8080"), "200 OK", "{path}");
            for other in
                ["evil.example", "evil.example:8080", "127.0.0.1", "127.0.0.1:8081", "127.0.0.1:8080.evil", ""]
            {
                assert_eq!(get(path, other), "421 Misdirected Request", "{path} of {other}");
            }
        }
        for path in
            ["/", "/page", "/0123abce/page", "/0123abc/page", "/0123abcd", "/../page", "*", "/x/0123abcd/page"]
        {
            assert_eq!(get(path, host), "403 Forbidden", "{path}");
        }
        for path in ["/0123abcd/../page", "/0123abcd/etc/passwd", "/0123abcd/%2e%2e/etc/passwd", "/0123abcd/page?x"] {
            assert_eq!(get(path, host), "404 Not Found", "{path}");
        }
    }

    #[test]
    fn only_whole_requests_of_one_host_that_get_are_answered() {
        let host = "Host: 127.0.0.1:8080\r\n";
        assert_eq!(status(&format!("POST /0123abcd/ HTTP/1.1\r\n{host}\r\n")), "405 Method Not Allowed");
        assert_eq!(status("GET /0123abcd/ HTTP/1.1\r\n\r\n"), "421 Misdirected Request");
        assert_eq!(
            status(&format!("GET /0123abcd/ HTTP/1.1\r\n{host}Host: evil.example\r\n\r\n")),
            "421 Misdirected Request"
        );
        for request in
            ["", "GET", &format!("GET /0123abcd/ HTTP/1.1\r\n{host}"), "\x16\x03\x01\x02", "GET / HTTP/9\r\n\r\n"]
        {
            assert_eq!(status(request), "400 Bad Request", "{request:?}");
        }
        let many = format!("GET /0123abcd/ HTTP/1.1\r\n{host}{}\r\n", "A: b\r\n".repeat(MOST_HEADERS));
        assert_eq!(status(&many), "400 Bad Request");
    }

    #[test]
    fn a_request_without_an_end_is_given_up() {
        assert_eq!(head(&mut &b"GET / HTTP/1.1\r\n\r\nrest"[..], |_| Ok(())).unwrap().unwrap().len(), 22);
        assert_eq!(head(&mut &b"GET"[..], |_| Ok(())).unwrap().unwrap(), b"GET");
        assert_eq!(head(&mut io::repeat(b'x'), |_| Ok(())).unwrap(), None);
    }

    /// A site on a port of its own, whose requests have this time.
    fn opened(patience: Duration) -> Arc<Site> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let site = Arc::new(Site { patience, ..Site::new("0123abcd".to_owned(), port) });
        listen(listener, &site);
        site
    }

    fn connect(site: &Site) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, site.port)).unwrap()
    }

    #[test]
    fn a_request_that_comes_byte_by_byte_has_no_more_time_than_another() {
        let site = opened(Duration::from_millis(400));
        let mut slow = connect(&site);
        slow.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let begun = Instant::now();
        let is_closed = |slow: &mut TcpStream| match slow.read(&mut [0; 16]) {
            Ok(read) => read == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        };
        while begun.elapsed() < Duration::from_secs(20) && slow.write_all(b"G").is_ok() && !is_closed(&mut slow) {}
        assert!(begun.elapsed() < Duration::from_secs(20), "a byte at a time keeps it open");
    }

    #[test]
    fn connections_that_wait_do_not_keep_out_the_browser() {
        let site = opened(Duration::from_secs(60));
        let mut slow: Vec<TcpStream> = Vec::new();
        for round in 0..3 {
            for _ in 0..MOST_WAITING {
                let mut one = connect(&site);
                one.write_all(b"GET /").unwrap();
                slow.push(one);
            }
            let mut browser = connect(&site);
            browser.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let host = format!("127.0.0.1:{}", site.port);
            browser.write_all(format!("GET /0123abcd/number HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
            let mut answer = String::new();
            browser.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{round}: {answer}");
        }
    }

    #[test]
    fn a_new_page_has_the_next_number_and_a_failure_leaves_the_old_one() {
        let site = site();
        let get = |page: &str| {
            let request = format!("GET /0123abcd/{page} HTTP/1.1\r\nhost: localhost:8080\r\n\r\n");
            String::from_utf8(site.answer(request.as_bytes()).body.to_vec()).unwrap()
        };
        assert_eq!((get("number"), get("page")), ("1\n".to_owned(), "<p>report".to_owned()));
        site.say("it is not an ELF file");
        assert_eq!((get("number"), get("page")), ("1\nit is not an ELF file".to_owned(), "<p>report".to_owned()));
        site.show(b"<p>next".to_vec());
        assert_eq!((get("number"), get("page")), ("2\n".to_owned(), "<p>next".to_owned()));
    }
}
