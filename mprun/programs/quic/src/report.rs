// SPDX-License-Identifier: Apache-2.0
//! The output: one JSON object per line on standard output, with times in nanoseconds.

use std::io::Write;
use std::time::Duration;

use tquic::connection::Connection;

/// Prints a line at once, so that it is not lost if the program ends.
pub fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    // The reader has closed the output, so the error cannot be reported.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Whole nanoseconds.
pub fn nanos(time: Duration) -> u128 {
    time.as_nanos()
}

/// The clock of the whole host (CLOCK_MONOTONIC, clock_gettime(2)), so that times of several programs can be compared.
pub fn monotonic_ns() -> i128 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a value that outlives the call; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// Each path of a connection with the library's figures for it, as a JSON array. Bytes are of UDP payload.
pub fn paths(connection: &mut Connection) -> String {
    let mut pairs: Vec<_> = connection.paths_iter().collect();
    // The library returns the newest first.
    pairs.reverse();
    let entries: Vec<String> = pairs
        .iter()
        .filter_map(|pair| {
            let (is_validated, state) = match connection.get_path(pair.local, pair.remote) {
                Ok(path) => (path.validated(), format!("{:?}", path.state()).to_lowercase()),
                Err(_) => return None,
            };
            let figures = connection.get_path_stats(pair.local, pair.remote).ok()?;
            Some(format!(
                concat!(
                    r#"{{"local":"{}","remote":"{}","validated":{},"state":"{}","sent_bytes":{},"received_bytes":{},"#,
                    r#""sent_packets":{},"received_packets":{},"lost_packets":{},"lost_bytes":{},"acked_bytes":{},"#,
                    r#""sent_stream_bytes":{},"received_stream_bytes":{},"#,
                    r#""smoothed_rtt_ns":{},"least_rtt_ns":{},"congestion_window_bytes":{}}}"#
                ),
                pair.local.ip(),
                pair.remote.ip(),
                is_validated,
                state,
                figures.sent_bytes,
                figures.recv_bytes,
                figures.sent_count,
                figures.recv_count,
                figures.lost_count,
                figures.lost_bytes,
                figures.acked_bytes,
                figures.sent_stream_bytes,
                figures.recv_stream_bytes,
                figures.srtt * 1000,
                figures.min_rtt * 1000,
                figures.final_cwnd,
            ))
        })
        .collect();
    format!("[{}]", entries.join(","))
}

/// A JSON string.
pub fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if (c as u32) < 0x20 => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
