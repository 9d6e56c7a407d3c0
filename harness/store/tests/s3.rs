// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promises of [`store::Store`], held against a server of S3 that is not ours and checks each signature.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s::{S3Result, s3_error};
use s3s_fs::FileSystem;
use store::{Error, Store};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

const ACCESS_KEY: &str = "harness-test";
const SECRET_KEY: &str = "a secret that nothing prints";

/// Refuses objects in buckets that no request made, as S3 does: the file system below makes each folder that it misses.
struct Buckets {
    root: PathBuf,
}

#[async_trait::async_trait]
impl S3Access for Buckets {
    async fn check(&self, request: &mut S3AccessContext<'_>) -> S3Result<()> {
        if request.credentials().is_none() {
            return Err(s3_error!(AccessDenied));
        }
        let Some((bucket, _)) = request.s3_path().as_object() else { return Ok(()) };
        if self.root.join(bucket).is_dir() { Ok(()) } else { Err(s3_error!(NoSuchBucket)) }
    }
}

/// Serves the folders of `root` as buckets, on a thread of its own until the process ends.
fn serve(root: &Path) -> SocketAddr {
    let mut builder = S3ServiceBuilder::new(FileSystem::new(root).unwrap());
    builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
    builder.set_access(Buckets { root: root.to_owned() });
    let service = builder.build().into_shared();
    let (send, address) = mpsc::channel();
    thread::spawn(move || {
        Runtime::new().unwrap().block_on(async move {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            send.send(listener.local_addr().unwrap()).unwrap();
            while let Ok((socket, _)) = listener.accept().await {
                let service = service.clone();
                tokio::spawn(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    // A client may leave at any time.
                    let _ = server.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
    });
    address.recv().unwrap()
}

/// A server with one bucket, `bucket`.
struct Server {
    root: TempDir,
    address: SocketAddr,
}

impl Server {
    fn start() -> Server {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("bucket")).unwrap();
        Server { address: serve(root.path()), root }
    }

    fn open(&self, url: &str, secret_key: &str) -> Store {
        let endpoint = format!("http://{}", self.address);
        let variables = [
            ("AWS_ENDPOINT_URL", &*endpoint),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", secret_key),
            ("OTHER", "no variable of a store"),
        ];
        let variables = variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        Store::open(url, variables.into_iter()).unwrap()
    }
}

#[test]
fn an_object_is_read_as_it_was_last_written() {
    let server = Server::start();
    let store = server.open("s3://bucket/of/results", SECRET_KEY);
    assert_eq!(store.get("name", 100).unwrap(), None);
    for bytes in [b"first".to_vec(), vec![7; 1 << 20]] {
        store.put("name", bytes.clone()).unwrap();
        assert_eq!(store.get("name", 1 << 20).unwrap(), Some(bytes));
    }
    assert!(server.root.path().join("bucket/of/results/name").is_file(), "the folder of the URL");
    assert_eq!(server.open("s3://bucket/other", SECRET_KEY).get("name", 100).unwrap(), None);
}

#[test]
fn an_object_larger_than_asked_for_is_refused() {
    let server = Server::start();
    let store = server.open("s3://bucket", SECRET_KEY);
    store.put("name", vec![0; 101]).unwrap();
    assert!(matches!(store.get("name", 100), Err(Error::Large { max_bytes: 100, .. })));
    assert_eq!(store.get("name", 101).unwrap().map(|bytes| bytes.len()), Some(101));
}

#[test]
fn a_wrong_secret_is_refused_by_the_server_and_told_to_nobody() {
    let server = Server::start();
    server.open("s3://bucket", SECRET_KEY).put("name", b"bytes".to_vec()).unwrap();
    let wrong = "another secret that nothing prints";
    let store = server.open("s3://bucket", wrong);
    for error in [store.get("name", 100).unwrap_err(), store.put("name", b"worse".to_vec()).unwrap_err()] {
        let text = format!("{error} {error:?}");
        assert!(text.contains("SignatureDoesNotMatch"), "{text}");
        assert!(!text.contains("secret that nothing prints"), "{text}");
    }
    assert!(!format!("{store:?}").contains(wrong));
    assert_eq!(fs::read(server.root.path().join("bucket/name")).unwrap(), b"bytes");
}

#[test]
fn a_bucket_that_is_not_there_is_an_error_or_a_miss_and_nothing_is_made() {
    let server = Server::start();
    let store = server.open("s3://nowhere", SECRET_KEY);
    assert!(matches!(store.get("name", 100), Ok(None) | Err(Error::Store(_))));
    assert!(matches!(store.put("name", Vec::new()), Err(Error::Store(_))));
    assert!(!server.root.path().join("nowhere").exists());
}

#[test]
fn a_server_that_is_gone_is_an_error_in_one_line() {
    let server = Server { root: tempfile::tempdir().unwrap(), address: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)) };
    let error = server.open("s3://bucket", SECRET_KEY).get("name", 100).unwrap_err().to_string();
    assert!(!error.contains('\n') && error.contains("127.0.0.1:1"), "{error}");
}
