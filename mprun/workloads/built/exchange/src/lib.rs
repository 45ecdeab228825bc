// SPDX-License-Identifier: Apache-2.0
//! The exchange of requests and answers over a QUIC connection, without the QUIC library.
//!
//! A request is a bidirectional stream: a line with the number of wanted bytes, then a body that may be empty. The
//! answer has this number of bytes. `requests` is the client's side, `answers` the server's side. Both reach the QUIC
//! library through the trait `Connection`. The library's set-up, its paths and its main loop are left to the programs.

pub mod answers;
pub mod arguments;
pub mod input;
pub mod network;
pub mod report;
pub mod requests;

use std::net::SocketAddr;

use bytes::Bytes;

use report::PathFigures;

/// The application protocol that is negotiated (ALPN, RFC 7301).
pub const PROTOCOL: &[u8] = b"mprun/1";
/// The name in TLS's server name indication. The certificate is not verified.
pub const SERVER_NAME: &str = "mprun";
/// An end keeps connection identifiers for this number of paths.
pub const MOST_PATHS: u64 = 8;
/// The names of the arguments that both ends read.
pub const SHARED: [&str; 5] = ["congestion", "scheduler", "idle-timeout-ms", "qlog", "testcase"];
/// The case `keyupdate` updates the keys once this much of the answers has arrived.
pub const UPDATE_BYTES: u64 = 50_000;

/// The content of requests and answers. It does not matter, because it is encrypted on the wire.
static CONTENT: [u8; 65_536] = [0; 65_536];

/// A QUIC connection of any library.
pub trait Connection {
    /// Opens a bidirectional stream. Error: the reason why there is none.
    fn open_stream(&mut self) -> Result<u64, String>;

    /// Writes content, and with `is_last` the end of the stream after it. Returns how many bytes the library has
    /// accepted. `None`: it accepts none now.
    fn write(&mut self, stream: u64, content: Bytes, is_last: bool) -> Option<usize>;

    /// States whether there is more to write, so that the library reports when it accepts more.
    fn want_write(&mut self, stream: u64, is_wanted: bool);

    /// Reads everything that has arrived, in parts. Returns true at the end of the stream. Error: the stream has ended
    /// early.
    fn read(&mut self, stream: u64, take: &mut dyn FnMut(&[u8])) -> Result<bool, String>;

    /// Ends the answer of a stream early.
    fn refuse(&mut self, stream: u64);

    /// Returns true if the path between two addresses is validated (RFC 9000 8.2).
    fn is_validated(&mut self, local: SocketAddr, remote: SocketAddr) -> bool;

    /// Returns true if both ends have negotiated multipath.
    fn is_multipath(&self) -> bool;

    /// Returns the library's figures for each path, the first path first.
    fn paths(&mut self) -> Vec<PathFigures>;
}

/// A part of the content, at most `left` bytes long, and true if it has all of them.
fn part_of(left: u64) -> (Bytes, bool) {
    let part = Bytes::from_static(&CONTENT[..left.min(CONTENT.len() as u64) as usize]);
    let is_last = part.len() as u64 == left;
    (part, is_last)
}
