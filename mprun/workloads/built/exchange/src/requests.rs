// SPDX-License-Identifier: Apache-2.0
//! The client's side of requests: sends them, measures them, and prints what happens.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::arguments::Arguments;
use crate::input::Input;
use crate::network::Network;
use crate::report::{self, Event};
use crate::{part_of, Connection, MOST_PATHS};

/// The names of the client's own arguments.
pub const KNOWN: [&str; 8] = ["path", "requests", "response", "request", "think-ns", "streams", "keylog", "timeout-ms"];
/// Shorter standstills are not reported.
const STANDSTILL: Duration = Duration::from_millis(10);

/// A path between two addresses: (local, remote).
pub type Pair = (SocketAddr, SocketAddr);

/// The source of the requests.
enum Source {
    /// A number of answers of one size.
    Equal { requests: u64, response_bytes: u64 },
    /// The size of each answer is a line of standard input. The end of the input ends the last request.
    Read(Input),
}

/// A request that is under way.
struct Request {
    number: u64,
    response_bytes: u64,
    sent_at: Instant,
    received_bytes: u64,
    left_to_send: u64,
    line: Option<Bytes>,
}

/// All requests of a client, and the progress of its connection.
pub struct Requests {
    source: Source,
    request_bytes: u64,
    think: Duration,
    /// The largest number of requests under way at a time, each on a stream of its own.
    streams: usize,
    /// Each request has a connection of its own, after the previous one.
    reconnects: bool,
    wants_connection: bool,
    /// The paths other than the first.
    further: Vec<Pair>,
    began: Instant,
    connected: bool,
    under_way: BTreeMap<u64, Request>,
    started: u64,
    done: u64,
    done_bytes: u64,
    /// The times of further requests, in order.
    due: VecDeque<Instant>,
    moved_at: Instant,
    validated: Vec<Pair>,
    first_sent: Option<Instant>,
    last_received: Option<Instant>,
    finished: bool,
    failure: Option<String>,
}

/// Reads the paths from the arguments and binds each local address to a port that the kernel chooses.
pub fn bind(arguments: &Arguments) -> Result<(Network, Vec<Pair>), String> {
    let pairs = arguments.all("path").map(path).collect::<Result<Vec<_>, _>>()?;
    if pairs.is_empty() || pairs.len() as u64 > MOST_PATHS {
        return Err(format!("--path LOCAL,REMOTE:PORT is needed once to {MOST_PATHS} times"));
    }
    let network = Network::bind(&local_addresses(&pairs))?;
    let paths = pairs.iter().map(|(local, remote)| (bound(&network, *local), *remote)).collect();
    Ok((network, paths))
}

fn path(text: &str) -> Result<(IpAddr, SocketAddr), String> {
    let pair = text.split_once(',').and_then(|(local, remote)| Some((local.parse().ok()?, remote.parse().ok()?)));
    pair.ok_or_else(|| format!("--path {text}: no LOCAL,REMOTE:PORT"))
}

/// Each local address once, in order, without a port.
fn local_addresses(pairs: &[(IpAddr, SocketAddr)]) -> Vec<SocketAddr> {
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for (local, _) in pairs {
        if !addresses.iter().any(|address| address.ip() == *local) {
            addresses.push(SocketAddr::new(*local, 0));
        }
    }
    addresses
}

/// The socket address that was bound for a local address.
fn bound(network: &Network, local: IpAddr) -> SocketAddr {
    let addresses = network.addresses();
    addresses.into_iter().find(|address| address.ip() == local).unwrap_or(SocketAddr::new(local, 0))
}

impl Requests {
    /// Reads the requests from the arguments. The time of all events counts from now.
    pub fn new(arguments: &Arguments, further: Vec<Pair>) -> Result<Self, String> {
        let now = Instant::now();
        let source = match arguments.get("requests") {
            Some("-") => Source::Read(Input::new()),
            _ => Source::Equal {
                requests: arguments.number("requests", 1)?,
                response_bytes: arguments.number("response", 0)?,
            },
        };
        Ok(Self {
            source,
            request_bytes: arguments.number("request", 0)?,
            think: Duration::from_nanos(arguments.number("think-ns", 0)?),
            streams: arguments.number("streams", 1)?,
            reconnects: arguments.get("testcase") == Some("multiconnect"),
            wants_connection: false,
            further,
            began: now,
            connected: false,
            under_way: BTreeMap::new(),
            started: 0,
            done: 0,
            done_bytes: 0,
            due: VecDeque::new(),
            moved_at: now,
            validated: Vec::new(),
            first_sent: None,
            last_received: None,
            finished: false,
            failure: None,
        })
    }

    /// Returns the paths other than the first.
    pub fn further(&self) -> Vec<Pair> {
        self.further.clone()
    }

    /// Returns true once the handshake is complete.
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// Returns true if everything is fetched.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Returns true, once, if the next request needs another connection.
    pub fn take_reconnection(&mut self) -> bool {
        self.connected &= !self.wants_connection;
        std::mem::take(&mut self.wants_connection)
    }

    /// Returns the bytes of all answers that have arrived.
    pub fn received_bytes(&self) -> u64 {
        self.done_bytes + self.under_way.values().map(|request| request.received_bytes).sum::<u64>()
    }

    /// Returns the reason why the client cannot continue, if there is one.
    pub fn failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// Returns the time until the next request is due, `until` is reached, or the library's timer expires.
    pub fn wait(&self, timer: Option<Duration>, until: Instant) -> Duration {
        let now = Instant::now();
        let moments = [Some(until), self.due.front().copied()].into_iter().flatten();
        let waits = moments.map(|moment| moment.saturating_duration_since(now)).chain(timer);
        waits.min().unwrap_or_default()
    }

    /// Returns the file descriptor of the requests, if more requests may be read from it.
    pub fn input(&self) -> Option<RawFd> {
        match &self.source {
            Source::Equal { .. } => None,
            Source::Read(input) => input.descriptor(),
        }
    }

    /// Reads further requests, which are there.
    pub fn read_input(&mut self) {
        if let Source::Read(input) = &mut self.source {
            if let Err(cause) = input.read() {
                self.failure = Some(cause);
            }
        }
    }

    /// Records that the handshake is complete.
    pub fn connect(&mut self) {
        self.connected = true;
        report::print(&Event::Connected { at_ns: report::nanos(self.began.elapsed()) });
    }

    /// Returns true if a request is under way or done on the connection.
    pub fn has_begun(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Sends the first requests of a given number.
    pub fn begin(&mut self, connection: &mut dyn Connection) {
        if let Source::Equal { requests, response_bytes } = self.source {
            let count = if self.reconnects { 1 } else { self.streams as u64 };
            for _ in 0..requests.min(count) {
                self.send(connection, response_bytes);
            }
        }
    }

    /// Sends the requests that are due, and records paths that have become usable.
    pub fn go_on(&mut self, connection: &mut dyn Connection, now: Instant) {
        self.note_paths(connection, now);
        if !self.connected || self.finished {
            return;
        }
        match &mut self.source {
            Source::Equal { response_bytes, .. } => {
                let response_bytes = *response_bytes;
                while self.due.front().is_some_and(|moment| now >= *moment) {
                    self.due.pop_front();
                    self.send(connection, response_bytes);
                }
            }
            Source::Read(input) if self.under_way.is_empty() => match input.take() {
                Some(response_bytes) => self.send(connection, response_bytes),
                None => self.finished = input.is_over(),
            },
            Source::Read(_) => {}
        }
    }

    /// Prints a path's validation (RFC 9000 8.2), once.
    fn note_paths(&mut self, connection: &mut dyn Connection, now: Instant) {
        if !self.connected || self.validated.len() == self.further.len() {
            return;
        }
        for (local, remote) in self.further.clone() {
            if !self.validated.contains(&(local, remote)) && connection.is_validated(local, remote) {
                self.validated.push((local, remote));
                let at_ns = report::nanos(now - self.began);
                report::print(&Event::Path { at_ns, local: local.ip(), remote: remote.ip() });
            }
        }
    }

    fn send(&mut self, connection: &mut dyn Connection, response_bytes: u64) {
        let stream = match connection.open_stream() {
            Ok(stream) => stream,
            Err(cause) => {
                self.failure = Some(format!("request {}: no stream: {cause}", self.started));
                return;
            }
        };
        let sent_at = Instant::now();
        self.first_sent.get_or_insert(sent_at);
        if self.under_way.is_empty() {
            self.moved_at = sent_at;
        }
        let line = Some(Bytes::from(format!("{response_bytes}\n")));
        let (number, left_to_send) = (self.started, self.request_bytes);
        self.started += 1;
        let request = Request { number, response_bytes, sent_at, received_bytes: 0, left_to_send, line };
        self.under_way.entry(stream).or_insert(request).send(connection, stream);
    }

    /// Reads what has arrived of an answer. At its end, records the delay and schedules the next request.
    pub fn read(&mut self, connection: &mut dyn Connection, stream: u64) {
        let Some(request) = self.under_way.get_mut(&stream) else {
            return;
        };
        let (moved_at, began) = (&mut self.moved_at, self.began);
        let read = connection.read(stream, &mut |part| {
            request.received_bytes += part.len() as u64;
            move_on(moved_at, began);
        });
        match read {
            Ok(true) => {
                move_on(moved_at, began);
                self.end(stream);
            }
            Ok(false) => {}
            Err(cause) => {
                self.failure = Some(format!("request {}: its answer ended early: {cause}", request.number));
            }
        }
    }

    /// Sends more of a request. The library accepts more.
    pub fn write(&mut self, connection: &mut dyn Connection, stream: u64) {
        if let Some(request) = self.under_way.get_mut(&stream) {
            let left_to_send = request.left_to_send;
            request.send(connection, stream);
            if request.left_to_send < left_to_send {
                move_on(&mut self.moved_at, self.began);
            }
        }
    }

    fn end(&mut self, stream: u64) {
        let Some(request) = self.under_way.remove(&stream) else { return };
        let now = Instant::now();
        let (number, bytes) = (request.number, request.received_bytes);
        let (at_ns, delay_ns) = (report::nanos(request.sent_at - self.began), report::nanos(now - request.sent_at));
        report::print(&Event::Request { number, at_ns, delay_ns, bytes });
        if bytes != request.response_bytes {
            self.failure = Some(format!("request {number}: {bytes} bytes instead of {}", request.response_bytes));
            return;
        }
        self.done += 1;
        self.done_bytes += bytes;
        self.last_received = Some(now);
        if let Source::Equal { requests, .. } = self.source {
            if self.done == requests {
                self.finished = true;
            } else if self.reconnects {
                self.wants_connection = true;
            } else if self.started + (self.due.len() as u64) < requests {
                self.due.push_back(now + self.think);
            }
        }
    }

    /// The number of answered requests, in words.
    fn progress(&self) -> String {
        match self.source {
            Source::Equal { requests, .. } => format!("{} of {requests} requests done", self.done),
            Source::Read(_) => format!("{} requests done", self.done),
        }
    }

    /// The reason why the time was not enough.
    pub fn explain_late(&self, timeout: Duration) -> String {
        let seconds = timeout.as_secs_f64();
        if !self.connected {
            return format!("no connection after {seconds} s: the server did not answer");
        }
        let part: u64 = self.under_way.values().map(|request| request.received_bytes).sum();
        format!("{} after {seconds} s, {part} bytes of the next: the connection stalled", self.progress())
    }

    /// The reason why the connection ended before everything was fetched. why: the library's reason.
    pub fn explain_close(&self, why: &str) -> String {
        format!("{} when the connection ended: {why}", self.progress())
    }

    /// Prints the last lines: a standstill that did not end, the totals, and the payload of each path.
    pub fn print_end(&mut self, connection: &mut dyn Connection) {
        if !self.under_way.is_empty() {
            move_on(&mut self.moved_at, self.began);
        }
        let since = |moment: Option<Instant>| moment.map_or(0, |moment| report::nanos(moment - self.began));
        report::print(&Event::End {
            requests: self.done,
            bytes: self.done_bytes,
            first_request_ns: since(self.first_sent),
            end_ns: since(self.last_received),
            multipath: connection.is_multipath(),
            paths: connection.paths(),
        });
    }
}

/// Records that the requests have progressed. If they stood still before, prints the standstill.
fn move_on(moved_at: &mut Instant, began: Instant) {
    let now = Instant::now();
    if now - *moved_at >= STANDSTILL {
        let (at_ns, to_ns) = (report::nanos(*moved_at - began), report::nanos(now - began));
        report::print(&Event::Standstill { at_ns, to_ns });
    }
    *moved_at = now;
}

impl Request {
    /// Passes as much of the request to the library as it accepts.
    fn send(&mut self, connection: &mut dyn Connection, stream: u64) {
        if let Some(line) = self.line.take() {
            let is_whole = self.left_to_send == 0;
            if connection.write(stream, line.clone(), is_whole).is_none() {
                self.line = Some(line);
            }
        }
        while self.line.is_none() && self.left_to_send > 0 {
            let (part, is_last) = part_of(self.left_to_send);
            match connection.write(stream, part, is_last) {
                Some(taken) => self.left_to_send -= taken as u64,
                None => break,
            }
        }
        connection.want_write(stream, self.line.is_some() || self.left_to_send > 0);
    }
}
