// SPDX-License-Identifier: Apache-2.0
//! Multipath QUIC for experiments (RFC 9000, draft-ietf-quic-multipath-21 as implemented by the library noq-proto).
//!
//!     mprun-noq server --listen ADDRESS:PORT ... --certificate FILE --key FILE [--scheduler S] [--congestion C]
//!                      [--qlog FILE]
//!     mprun-noq client --path LOCAL,REMOTE:PORT ... --requests N --response BYTES [--request BYTES] [--think-ns T]
//!                      [--streams N] [--scheduler S] [--backup LOCAL,REMOTE ...] [--congestion C] [--keylog FILE]
//!                      [--qlog FILE] [--timeout-ms T]
//!
//! Its requests and its output are those of mprun-quic, which is built on another library.

mod client;
mod configuration;
mod link;
mod server;
mod stack;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.split_first() {
        Some((role, rest)) if role == "server" => server::serve(rest),
        Some((role, rest)) if role == "client" => client::fetch(rest),
        Some((role, _)) if role == "--version" => {
            println!("mprun-noq {} (noq-proto 1.4.0)", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        _ => Err("first argument: server or client".to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            eprintln!("mprun-noq: {cause}");
            ExitCode::FAILURE
        }
    }
}
