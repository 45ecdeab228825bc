// SPDX-License-Identifier: Apache-2.0
//! The output: one JSON object per line on standard output, with times in nanoseconds.

use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use serde::Serialize;

/// A line of the output. The field `event` is the name of the variant in lower case.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// The program has started. Times of other events count from here.
    Begin {
        monotonic_ns: i64,
    },
    Connected {
        at_ns: u64,
    },
    /// The library has accepted a further path.
    Path {
        at_ns: u64,
        local: IpAddr,
        remote: IpAddr,
    },
    /// The library has refused a further path.
    Refused {
        local: IpAddr,
        why: String,
    },
    /// A request has ended.
    Request {
        number: u64,
        at_ns: u64,
        delay_ns: u64,
        bytes: u64,
    },
    /// A request has not progressed between two times.
    Standstill {
        at_ns: u64,
        to_ns: u64,
    },
    End {
        requests: u64,
        bytes: u64,
        first_request_ns: u64,
        end_ns: u64,
        multipath: bool,
        paths: Vec<PathFigures>,
    },
    /// The server's side of a connection has ended.
    Closed {
        paths: Vec<PathFigures>,
    },
}

/// A path of a connection with the library's figures for it. Bytes are of UDP payload.
#[derive(Serialize)]
pub struct PathFigures {
    pub local: IpAddr,
    pub remote: IpAddr,
    pub validated: bool,
    pub state: String,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub sent_packets: u64,
    pub received_packets: u64,
    pub lost_packets: u64,
    pub lost_bytes: u64,
    pub sent_stream_bytes: u64,
    pub received_stream_bytes: u64,
    pub smoothed_rtt_ns: u64,
    pub least_rtt_ns: u64,
    pub congestion_window_bytes: u64,
}

/// Prints an event at once, so that it is not lost if the program ends.
pub fn print(event: &Event) {
    let mut out = std::io::stdout().lock();
    // If the reader has closed the output, the error cannot be reported.
    let _ = serde_json::to_writer(&mut out, event)
        .map_err(Into::into)
        .and_then(|()| writeln!(out))
        .and_then(|()| out.flush());
}

/// Whole nanoseconds.
pub fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// The clock of the whole host (CLOCK_MONOTONIC, clock_gettime(2)), so that times of several programs can be compared.
pub fn monotonic_ns() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a value that outlives the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
