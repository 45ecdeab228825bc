// SPDX-License-Identifier: Apache-2.0
//! The output: one JSON object per line on standard output, with times in nanoseconds.

use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use serde::Serialize;
use tquic::connection::Connection;

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
    local: IpAddr,
    remote: IpAddr,
    validated: bool,
    state: String,
    sent_bytes: u64,
    received_bytes: u64,
    sent_packets: u64,
    received_packets: u64,
    lost_packets: u64,
    lost_bytes: u64,
    acked_bytes: u64,
    sent_stream_bytes: u64,
    received_stream_bytes: u64,
    smoothed_rtt_ns: u64,
    least_rtt_ns: u64,
    congestion_window_bytes: u64,
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

/// Each path of a connection.
pub fn paths(connection: &mut Connection) -> Vec<PathFigures> {
    let mut pairs: Vec<_> = connection.paths_iter().collect();
    // The library returns the newest first.
    pairs.reverse();
    pairs
        .iter()
        .filter_map(|pair| {
            let path = connection.get_path(pair.local, pair.remote).ok()?;
            let (validated, state) = (path.validated(), format!("{:?}", path.state()).to_lowercase());
            let figures = connection.get_path_stats(pair.local, pair.remote).ok()?;
            Some(PathFigures {
                local: pair.local.ip(),
                remote: pair.remote.ip(),
                validated,
                state,
                sent_bytes: figures.sent_bytes,
                received_bytes: figures.recv_bytes,
                sent_packets: figures.sent_count,
                received_packets: figures.recv_count,
                lost_packets: figures.lost_count,
                lost_bytes: figures.lost_bytes,
                acked_bytes: figures.acked_bytes,
                sent_stream_bytes: figures.sent_stream_bytes,
                received_stream_bytes: figures.recv_stream_bytes,
                smoothed_rtt_ns: figures.srtt * 1000,
                least_rtt_ns: figures.min_rtt * 1000,
                congestion_window_bytes: figures.final_cwnd,
            })
        })
        .collect()
}
