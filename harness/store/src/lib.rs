// SPDX-License-Identifier: MIT OR Apache-2.0
//! Object stores that machines share results through: S3, and any HTTP server that takes PUT and GET.
//!
//! A crate of its own, since a network client with its TLS has more code than harness, and few users need it: harness
//! links it only with the feature `object-store`.
//!
//! Credentials come from variables alone: `AWS_ACCESS_KEY_ID` and the others that `object_store`
//! [documents](https://docs.rs/object_store/latest/object_store/aws/struct.AmazonS3Builder.html#method.from_env), and for
//! HTTP [`TOKEN`]. A URL with a password is refused, since URLs are printed. No error contains a credential.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt as _, RetryConfig};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use tokio::runtime::Runtime;
use url::Url;

/// Variable with the token that an HTTP server gets, as `Authorization: Bearer`.
pub const TOKEN: &str = "HARNESS_CACHE_TOKEN";

/// Longest time for one request, in seconds. A slow store must not cost more than a run.
const TIMEOUT_SECS: u64 = 60;

/// Longest time for a connection, in seconds.
const CONNECT_SECS: u64 = 5;

/// Longest time for a request with all its repetitions, in seconds.
const RETRIES_SECS: u64 = 20;

/// Repetitions of a request that failed.
const RETRIES: usize = 2;

/// Reason why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL is not one of a store.
    #[error("{0}")]
    Url(String),
    /// The store does not answer, or refuses.
    #[error("{0}")]
    Store(String),
    /// An object is larger than what is asked for.
    #[error("{name} is larger than {max_bytes} bytes")]
    Large {
        /// Name of the object.
        name: String,
        /// Largest size that is taken.
        max_bytes: u64,
    },
}

/// A folder of objects in a store, used by one thread at a time.
#[derive(Debug)]
pub struct Store {
    runtime: Runtime,
    objects: Arc<dyn ObjectStore>,
    folder: Path,
}

impl Store {
    /// Opens the folder that a URL names: `s3://bucket/folder`, `https://server/folder`, with the credentials among these
    /// variables of an environment. Nothing is sent yet.
    ///
    /// # Errors
    /// When the URL does not name a store, or holds a password or a query, or when the credentials cannot be used.
    pub fn open(url: &str, variables: impl Iterator<Item = (OsString, OsString)>) -> Result<Self, Error> {
        let mut variables =
            variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let parsed = Url::parse(url).map_err(|error| Error::Url(format!("it is not a URL: {error}")))?;
        check(&parsed)?;
        // Another provider is as good, if the process has chosen one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = Path::from_url_path(parsed.path()).map_err(|error| Error::Url(error.to_string()))?;
        let objects: Arc<dyn ObjectStore> = if parsed.scheme() == "s3" {
            let bucket = parsed.host_str().unwrap_or_default();
            let known = variables.filter(|(name, _)| name.starts_with("AWS_"));
            let known = known.filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, value)));
            let store = known.fold(AmazonS3Builder::new(), |store, (key, value)| store.with_config(key, value));
            Arc::new(store.with_bucket_name(bucket).with_retry(retries()).build().map_err(store_error)?)
        } else {
            let mut server = parsed.clone();
            server.set_path("/");
            let token = variables.find_map(|(name, value)| (name == TOKEN).then_some(value));
            let options = options(&parsed, token)?;
            let store = HttpBuilder::new().with_url(server).with_retry(retries()).with_client_options(options);
            Arc::new(store.build().map_err(store_error)?)
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Store(error.to_string()))?;
        Ok(Self { runtime, objects, folder })
    }

    /// Reads an object of at most `max_bytes`; None: there is none of this name.
    ///
    /// # Errors
    /// When the store does not answer or refuses, or the object is larger.
    pub fn get(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, Error> {
        let place = self.folder.clone().join(name);
        self.runtime.block_on(async {
            let answer = match self.objects.get(&place).await {
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                answer => answer.map_err(store_error)?,
            };
            let mut bytes = Vec::new();
            let mut pieces = answer.into_stream();
            // A server may send more than it says.
            while let Some(piece) = pieces.next().await {
                let piece = piece.map_err(store_error)?;
                if bytes.len() as u64 + piece.len() as u64 > max_bytes {
                    return Err(Error::Large { name: name.to_owned(), max_bytes });
                }
                bytes.extend_from_slice(&piece);
            }
            Ok(Some(bytes))
        })
    }

    /// Writes an object as a whole; readers see the earlier object of this name, or this one.
    ///
    /// # Errors
    /// When the store does not answer or refuses.
    pub fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), Error> {
        let place = self.folder.clone().join(name);
        self.runtime.block_on(self.objects.put(&place, Bytes::from(bytes).into())).map(drop).map_err(store_error)
    }
}

/// Refuses URLs that hold a secret, or that do not name a folder.
fn check(url: &Url) -> Result<(), Error> {
    let wrong = |why: &str| Err(Error::Url(why.to_owned()));
    match url.scheme() {
        "s3" | "http" | "https" => {}
        other => return Err(Error::Url(format!("{other}:// is not known: write s3://, https:// or http://"))),
    }
    if url.host_str().is_none_or(str::is_empty) {
        return wrong("it names no bucket or server");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::Url(format!(
            "a URL is printed, so it must not hold a name or password: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for \
             s3://, {TOKEN} for http:// and https://"
        )));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return wrong("a URL is printed, so it must not hold a query (?…) or fragment (#…): write the folder alone");
    }
    Ok(())
}

/// Options of an HTTP client, with the server's token.
fn options(url: &Url, token: Option<String>) -> Result<ClientOptions, Error> {
    let options = ClientOptions::new()
        .with_allow_http(url.scheme() == "http")
        .with_connect_timeout(Duration::from_secs(CONNECT_SECS))
        .with_timeout(Duration::from_secs(TIMEOUT_SECS));
    let Some(token) = token else { return Ok(options) };
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| Error::Store(format!("{TOKEN} has characters that no header can have")))?;
    value.set_sensitive(true);
    Ok(options.with_default_headers(HeaderMap::from_iter([(AUTHORIZATION, value)])))
}

fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig { max_backoff: Duration::from_secs(2), ..BackoffConfig::default() },
        max_retries: RETRIES,
        retry_timeout: Duration::from_secs(RETRIES_SECS),
    }
}

/// The library's error with all its causes, in one line.
fn store_error(error: object_store::Error) -> Error {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    Error::Store(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_hold_a_secret_or_name_no_folder_are_refused() {
        for (url, what) in [
            ("https://me:secret@server/cache", "must not hold a name or password"),
            ("https://server/cache?X-Amz-Signature=1", "must not hold a query"),
            ("https://server/cache#x", "must not hold a query"),
            ("ftp://server/cache", "ftp:// is not known"),
            ("s3:///cache", "names no bucket"),
            ("s3://", "names no bucket"),
            ("https://", "not a URL"),
        ] {
            let error = Store::open(url, std::iter::empty()).unwrap_err().to_string();
            assert!(error.contains(what) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
