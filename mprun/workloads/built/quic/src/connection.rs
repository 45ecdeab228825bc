// SPDX-License-Identifier: Apache-2.0
//! A connection of the library tquic, as the exchange of requests and answers needs it.

use std::net::SocketAddr;

use bytes::Bytes;
use mprun_exchange::report::PathFigures;
use mprun_exchange::Connection;
use tquic::Shutdown;

/// A connection, borrowed from the library.
pub struct Of<'a>(pub &'a mut tquic::connection::Connection);

impl Connection for Of<'_> {
    fn open_stream(&mut self) -> Result<u64, String> {
        self.0.stream_bidi_new(0, false).map_err(|error| error.to_string())
    }

    fn write(&mut self, stream: u64, content: Bytes, is_last: bool) -> Option<usize> {
        self.0.stream_write(stream, content, is_last).ok()
    }

    fn want_write(&mut self, stream: u64, is_wanted: bool) {
        let _ = self.0.stream_want_write(stream, is_wanted);
    }

    fn read(&mut self, stream: u64, take: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        let mut buffer = [0u8; 65_536];
        loop {
            match self.0.stream_read(stream, &mut buffer) {
                Ok((length, is_end)) => {
                    take(&buffer[..length]);
                    if is_end {
                        return Ok(true);
                    }
                }
                Err(tquic::Error::Done) => return Ok(false),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn refuse(&mut self, stream: u64) {
        let _ = self.0.stream_shutdown(stream, Shutdown::Write, 1);
    }

    fn is_validated(&mut self, local: SocketAddr, remote: SocketAddr) -> bool {
        self.0.get_path(local, remote).is_ok_and(|path| path.validated())
    }

    fn is_multipath(&self) -> bool {
        self.0.is_multipath()
    }

    fn paths(&mut self) -> Vec<PathFigures> {
        let mut pairs: Vec<_> = self.0.paths_iter().collect();
        // The library returns the newest first.
        pairs.reverse();
        pairs.iter().filter_map(|pair| figures(self.0, pair.local, pair.remote)).collect()
    }
}

fn figures(
    connection: &mut tquic::connection::Connection,
    local: SocketAddr,
    remote: SocketAddr,
) -> Option<PathFigures> {
    let path = connection.get_path(local, remote).ok()?;
    let (validated, state) = (path.validated(), format!("{:?}", path.state()).to_lowercase());
    let figures = connection.get_path_stats(local, remote).ok()?;
    Some(PathFigures {
        local: local.ip(),
        remote: remote.ip(),
        validated,
        state,
        sent_bytes: figures.sent_bytes,
        received_bytes: figures.recv_bytes,
        sent_packets: figures.sent_count,
        received_packets: figures.recv_count,
        lost_packets: figures.lost_count,
        lost_bytes: figures.lost_bytes,
        sent_stream_bytes: figures.sent_stream_bytes,
        received_stream_bytes: figures.recv_stream_bytes,
        smoothed_rtt_ns: figures.srtt * 1000,
        least_rtt_ns: figures.min_rtt * 1000,
        congestion_window_bytes: figures.final_cwnd,
    })
}
