// SPDX-License-Identifier: MIT OR Apache-2.0
//! Live copy of the firmware's output: copies the console's file while QEMU writes to it. QEMU never waits for the
//! copy's reader, so the firmware runs the same with a slow reader, a fast one or none.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Interval between two checks of a file for new content.
const GLANCE: Duration = Duration::from_millis(20);

/// A thread that copies a growing file.
#[derive(Debug)]
pub struct Tail {
    /// Sender that is dropped when the file no longer grows.
    growing: Sender<()>,
    copying: JoinHandle<io::Result<()>>,
}

impl Tail {
    /// Starts to copy `file`, which need not exist yet, to `out`.
    pub fn start(file: PathBuf, out: impl Write + Send + 'static) -> Tail {
        let (growing, grown) = channel();
        Tail { growing, copying: thread::spawn(move || copy(&file, out, &grown)) }
    }

    /// Copies the rest, now that the file is complete. Waits for a slow reader until `interrupted` is set again: the
    /// interrupt that ended the run does not cut off its output.
    ///
    /// # Errors
    /// When the file could not be read, or the copy could not be written. A reader that closes its pipe early is not
    /// an error.
    pub fn finish(self, interrupted: &AtomicBool) -> io::Result<()> {
        drop(self.growing);
        interrupted.store(false, Ordering::Relaxed);
        while !self.copying.is_finished() {
            if interrupted.load(Ordering::Relaxed) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.copying.join().unwrap_or_else(|_| Err(io::Error::other("the thread that copies it panicked")))
    }
}

fn copy(path: &Path, mut out: impl Write, grown: &Receiver<()>) -> io::Result<()> {
    let mut file = None;
    let mut bytes = vec![0; 64 << 10];
    loop {
        // Checked before the file is read, so that everything written until then is read below.
        let complete = grown.recv_timeout(GLANCE) == Err(RecvTimeoutError::Disconnected);
        if file.is_none() {
            file = match File::open(path) {
                Ok(file) => Some(file),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
        }
        if let Some(file) = &mut file {
            loop {
                let read = match file.read(&mut bytes) {
                    Ok(0) => break,
                    Ok(read) => read,
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                };
                let written = out.write_all(&bytes[..read]).and_then(|()| out.flush());
                match written {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                    written => written?,
                }
            }
        }
        if complete {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::pipe;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Writer that keeps its input for the test, and signals each write.
    struct Kept(Arc<Mutex<Vec<u8>>>, Sender<()>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            let _ = self.1.send(());
            // A slow reader: much is left to write when the file is complete.
            thread::sleep(Duration::from_millis(5));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bytes_arrive_as_the_file_grows_and_all_are_out_when_it_has_finished() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("console.log");
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (sender, arrived) = channel();
        let tail = Tail::start(path.clone(), Kept(Arc::clone(&kept), sender));
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\r\n\0\xff").unwrap();
        arrived.recv().unwrap();
        file.write_all(&vec![b'x'; 1 << 20]).unwrap();
        // Ctrl-C has ended the run; its output is complete all the same.
        tail.finish(&AtomicBool::new(true)).unwrap();
        assert!(*kept.lock().unwrap() == fs::read(&path).unwrap());
    }

    #[test]
    fn a_file_that_never_came_is_empty() {
        let temp = tempfile::tempdir().unwrap();
        Tail::start(temp.path().join("none"), io::sink()).finish(&AtomicBool::new(false)).unwrap();
    }

    #[test]
    fn a_reader_that_has_gone_is_no_error_and_other_failures_are() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("console.log");
        fs::write(&path, "text").unwrap();
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        Tail::start(path, writer).finish(&AtomicBool::new(false)).unwrap();
        let error = Tail::start(temp.path().to_owned(), io::sink()).finish(&AtomicBool::new(false)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
    }

    #[test]
    fn a_reader_that_does_not_read_can_be_given_up() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("console.log");
        // More than a pipe holds.
        fs::write(&path, vec![b'x'; 4 << 20]).unwrap();
        let (reader, writer) = pipe().unwrap();
        let tail = Tail::start(path, writer);
        let interrupted = AtomicBool::new(false);
        thread::scope(|scope| {
            let finishing = scope.spawn(|| tail.finish(&interrupted));
            while !finishing.is_finished() {
                interrupted.store(true, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(5));
            }
            finishing.join().unwrap().unwrap();
        });
        drop(reader);
    }
}
