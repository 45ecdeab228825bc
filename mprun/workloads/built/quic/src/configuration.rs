// SPDX-License-Identifier: Apache-2.0
//! The library's configuration, the same for both ends: congestion control, paths and packet scheduler.

use std::fs::File;
use std::io::LineWriter;
use std::net::IpAddr;
use std::str::FromStr;

use mprun_exchange::arguments::Arguments;
use mprun_exchange::MOST_PATHS;
use tquic::connection::Connection;
use tquic::{Config, CongestionControlAlgorithm, MultipathAlgorithm};

/// A configuration with or without multipath, from the arguments.
pub fn configure(arguments: &Arguments) -> Result<Config, String> {
    let mut config = Config::new().map_err(|e| format!("the library cannot be configured: {e}"))?;
    let name = arguments.get("congestion").unwrap_or("bbr");
    let algorithm = CongestionControlAlgorithm::from_str(name)
        .map_err(|_| format!("--congestion {name}: none of cubic, bbr, bbr3, copa"))?;
    config.set_congestion_control_algorithm(algorithm);
    let idle_ms = arguments.number("idle-timeout-ms", 30_000u64)?;
    config.set_max_idle_timeout(idle_ms);
    config.set_max_handshake_timeout(idle_ms);
    config.set_active_connection_id_limit(MOST_PATHS);
    if let Some(scheduler) = arguments.get("scheduler") {
        config.enable_multipath(true);
        config.set_multipath_algorithm(scheduler_of(scheduler)?);
    }
    Ok(config)
}

/// Writes the events of a connection to a file (draft-ietf-quic-qlog-main-schema). A signal may end the program, so
/// each event is written at once.
pub fn log_events(connection: &mut Connection, name: &str) {
    match File::create(name) {
        Ok(file) => connection.set_qlog(Box::new(LineWriter::new(file)), "mprun-quic".to_string(), String::new()),
        Err(error) => eprintln!("mprun-quic: {name}: {error}"),
    }
}

/// `lowest-rtt`, `roundrobin`, `redundant`, or `prefer=LOCAL,REMOTE`: the path between two addresses.
fn scheduler_of(text: &str) -> Result<MultipathAlgorithm, String> {
    match text {
        "lowest-rtt" => return Ok(MultipathAlgorithm::MinRtt),
        "roundrobin" => return Ok(MultipathAlgorithm::RoundRobin),
        "redundant" => return Ok(MultipathAlgorithm::Redundant),
        _ => {}
    }
    let pair = text.strip_prefix("prefer=").and_then(|pair| pair.split_once(','));
    let addresses = pair.and_then(|(local, remote)| Some((address(local)?, address(remote)?)));
    let (local, remote) = addresses
        .ok_or_else(|| format!("--scheduler {text}: none of lowest-rtt, roundrobin, redundant, prefer=LOCAL,REMOTE"))?;
    Ok(MultipathAlgorithm::Prefer { local, remote })
}

fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}
