// SPDX-License-Identifier: Apache-2.0
//! A connection of the library, its paths, and what happens on it.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use crate::configuration::Policy;
use bytes::Bytes;
use mprun_exchange::report::{nanos, Event as Line, PathFigures};
use mprun_exchange::requests::Pair;
use mprun_exchange::{report, Connection as Exchange};
use noq_proto::{
    Connection, Dir, Event, FinishError, FourTuple, PathError, PathEvent, PathId, PathStats, PathStatus, ReadError,
    StreamId, VarInt,
};

/// A path that this end knows.
struct Known {
    /// None: not opened yet.
    id: Option<PathId>,
    local: IpAddr,
    remote: SocketAddr,
    validated: bool,
    /// The peer has declared it a backup.
    is_backup: bool,
    /// The library's last figures of a path that was abandoned.
    last: Option<PathStats>,
}

/// A connection.
pub struct Link {
    pub connection: Connection,
    policy: Policy,
    paths: Vec<Known>,
}

impl Link {
    /// A connection whose first path is between two addresses. further: (local, remote) of the paths that this end opens
    /// once it can.
    pub fn new(connection: Connection, policy: Policy, first: Pair, further: &[Pair]) -> Self {
        let known = |(local, remote): &Pair, id| Known {
            id,
            local: local.ip(),
            remote: *remote,
            validated: id.is_some(),
            is_backup: false,
            last: None,
        };
        let mut paths = vec![known(&first, Some(PathId::ZERO))];
        paths.extend(further.iter().map(|pair| known(pair, None)));
        Self { connection, policy, paths }
    }

    /// Declares the paths between these addresses backups, as (local, remote).
    pub fn declare_backups(&mut self, backups: &[(IpAddr, IpAddr)]) {
        for path in &mut self.paths {
            path.is_backup = backups.contains(&(path.local, path.remote.ip()));
        }
    }

    /// Returns the next event that is not about paths.
    pub fn poll(&mut self) -> Option<Event> {
        loop {
            match self.connection.poll()? {
                Event::Path(event) => self.note(event),
                event => return Some(event),
            }
        }
    }

    /// Opens the further paths for which the peer has given connection identifiers.
    pub fn open_paths(&mut self, now: Instant) {
        for index in 0..self.paths.len() {
            if self.paths[index].id.is_some() || self.paths[index].last.is_some() {
                continue;
            }
            let (local, remote) = (self.paths[index].local, self.paths[index].remote);
            // The library reports to the peer only a status that changes, so that the path begins as available. Its
            // status is set once it is validated, before it carries data.
            match self.connection.open_path(FourTuple::new(remote, Some(local)), PathStatus::Available, now) {
                Ok(id) => self.paths[index].id = Some(id),
                // The peer gives more soon after the handshake.
                Err(PathError::RemoteCidsExhausted | PathError::MaxPathIdReached) => {}
                Err(error) => {
                    self.paths[index].last = Some(PathStats::default());
                    report::print(&Line::Refused { local, why: error.to_string() });
                }
            }
        }
    }

    /// Tells the library which paths are available to data of this end, and which are backups.
    pub fn set_statuses(&mut self) {
        for index in 0..self.paths.len() {
            if let Some(id) = self.paths[index].id {
                let status = self.status(index);
                // Without multipath, or for a path that has gone, no status is needed.
                let _ = self.connection.set_path_status(id, status);
            }
        }
    }

    fn status(&self, index: usize) -> PathStatus {
        let path = &self.paths[index];
        let is_backup = match &self.policy {
            Policy::Prefer(local, remote) => (path.local, path.remote.ip()) != (*local, *remote),
            Policy::Backup => path.is_backup,
            Policy::Single | Policy::All(_) => false,
        };
        if is_backup {
            PathStatus::Backup
        } else {
            PathStatus::Available
        }
    }

    fn note(&mut self, event: PathEvent) {
        match event {
            PathEvent::Established { id, .. } => {
                self.learn(id);
                self.change(id, |path| path.validated = true);
                self.set_statuses();
            }
            PathEvent::RemoteStatus { id, status, .. } if self.connection.side().is_server() => {
                self.learn(id);
                self.change(id, |path| path.is_backup = status == PathStatus::Backup);
                self.set_statuses();
            }
            PathEvent::Discarded { id, path_stats, .. } => self.change(id, |path| path.last = Some(*path_stats)),
            _ => {}
        }
    }

    /// Adds a path that the peer has opened.
    fn learn(&mut self, id: PathId) {
        if self.paths.iter().any(|path| path.id == Some(id)) {
            return;
        }
        if let Ok(path) = self.connection.network_path(id) {
            let (local, remote) = (path.local_ip().unwrap_or(self.paths[0].local), path.remote());
            self.paths.push(Known { id: Some(id), local, remote, validated: false, is_backup: false, last: None });
        }
    }

    fn change(&mut self, id: PathId, change: impl FnOnce(&mut Known)) {
        if let Some(path) = self.paths.iter_mut().find(|path| path.id == Some(id)) {
            change(path);
        }
    }

    /// Returns the local address of packets that the library gives none.
    pub fn first_local(&self) -> IpAddr {
        self.paths[0].local
    }
}

fn id_of(stream: u64) -> StreamId {
    StreamId::from(VarInt::from_u64(stream).unwrap_or(VarInt::MAX))
}

impl Exchange for Link {
    fn open_stream(&mut self) -> Result<u64, String> {
        let stream = self.connection.streams().open(Dir::Bi);
        stream.map(u64::from).ok_or_else(|| "the peer allows no more at a time".to_string())
    }

    fn write(&mut self, stream: u64, content: Bytes, is_last: bool) -> Option<usize> {
        let mut stream = self.connection.send_stream(id_of(stream));
        let length = content.len();
        let taken = match length {
            0 => 0,
            _ => stream.write_chunks(&mut &mut [content][..]).ok()?,
        };
        if is_last && taken == length {
            match stream.finish() {
                // The peer wants no more. What follows is no use to it.
                Ok(()) | Err(FinishError::Stopped(_) | FinishError::ClosedStream) => {}
            }
        }
        Some(taken)
    }

    fn want_write(&mut self, _: u64, _: bool) {}

    fn read(&mut self, stream: u64, take: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        let mut stream = self.connection.recv_stream(id_of(stream));
        let mut chunks = stream.read(true).map_err(|error| error.to_string())?;
        let read = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => take(&chunk.bytes),
                Ok(None) => break Ok(true),
                Err(ReadError::Blocked) => break Ok(false),
                Err(error) => break Err(error.to_string()),
            }
        };
        // The main loop sends what has to be sent after this.
        let _ = chunks.finalize();
        read
    }

    fn refuse(&mut self, stream: u64) {
        let _ = self.connection.send_stream(id_of(stream)).reset(VarInt::from_u32(1));
    }

    fn is_validated(&mut self, local: SocketAddr, remote: SocketAddr) -> bool {
        self.paths.iter().any(|path| path.validated && path.local == local.ip() && path.remote == remote)
    }

    fn is_multipath(&self) -> bool {
        self.connection.is_multipath_negotiated()
    }

    fn paths(&mut self) -> Vec<PathFigures> {
        let connection = &mut self.connection;
        self.paths.iter().map(|path| figures(connection, path)).collect()
    }
}

fn figures(connection: &mut Connection, path: &Known) -> PathFigures {
    let current = path.id.and_then(|id| connection.path_stats(id));
    let state = match (path.id, current.is_some()) {
        (None, _) => "unknown",
        (Some(_), false) => "abandoned",
        (Some(_), true) if path.validated => "active",
        (Some(_), true) => "validating",
    };
    let figures = current.or(path.last).unwrap_or_default();
    PathFigures {
        local: path.local,
        remote: path.remote.ip(),
        validated: path.validated,
        state: state.to_string(),
        sent_bytes: figures.udp_tx.bytes,
        received_bytes: figures.udp_rx.bytes,
        sent_packets: figures.udp_tx.datagrams,
        received_packets: figures.udp_rx.datagrams,
        lost_packets: figures.lost_packets,
        lost_bytes: figures.lost_bytes,
        sent_stream_bytes: figures.stream_bytes_tx,
        received_stream_bytes: figures.stream_bytes_rx,
        smoothed_rtt_ns: nanos(figures.rtt),
        least_rtt_ns: nanos(figures.min_rtt),
        congestion_window_bytes: figures.cwnd,
    }
}
