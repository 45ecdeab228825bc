// SPDX-License-Identifier: Apache-2.0
//! Multipath QUIC for experiments (RFC 9000, draft-ietf-quic-multipath as implemented by the library tquic).
//!
//!     mprun-quic server --listen ADDRESS:PORT ... --certificate FILE --key FILE [--scheduler S] [--congestion C]
//!                       [--qlog FILE]
//!     mprun-quic client --path LOCAL,REMOTE:PORT ... --requests N --response BYTES [--request BYTES] [--think-ns T]
//!                       [--scheduler S] [--congestion C] [--keylog FILE] [--qlog FILE] [--timeout-ms T]
//!
//! A request is a bidirectional stream: a line with the number of wanted bytes, then a body that may be empty. The
//! answer has this number of bytes. The client prints the delay of each request and, at the end, the library's figures
//! for each path. The server prints its own figures when a connection ends.
//!
//! With `--requests -`, the client reads its requests from standard input: a line with the number of wanted bytes each.
//! It sends a request when the answer to the previous one has arrived. It ends at the end of the input.

mod client;
mod configuration;
mod connection;
mod network;
mod server;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.split_first() {
        Some((role, rest)) if role == "server" => server::serve(rest),
        Some((role, rest)) if role == "client" => client::fetch(rest),
        Some((role, _)) if role == "--version" => {
            println!("mprun-quic {} (tquic 1.6.0)", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        _ => Err("first argument: server or client".to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            eprintln!("mprun-quic: {cause}");
            ExitCode::FAILURE
        }
    }
}
