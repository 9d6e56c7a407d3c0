//! Suites of images: run, held against expectations, thresholds and a baseline.

pub mod assertion;
pub mod baseline;
pub mod cache;
pub mod defined;
pub mod draft;
pub mod expect;
pub mod filter;
pub mod first;
pub mod found;
pub mod held;
pub mod judgement;
pub mod junit;
pub mod known;
pub mod landing;
pub mod limit;
pub mod lines;
pub mod markdown;
pub mod remedy;
pub mod reports;
pub mod result;
pub mod session;
pub mod suite;
pub mod threshold;
pub mod watch;
pub mod work;
