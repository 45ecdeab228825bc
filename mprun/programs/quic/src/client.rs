// SPDX-License-Identifier: Apache-2.0
//! The client: opens a connection and its other paths, sends its requests one after the other, and measures them.

use std::cell::RefCell;
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tquic::connection::Connection;
use tquic::{Endpoint, PacketSendHandler, TlsConfig, TransportHandler};

use crate::arguments::Arguments;
use crate::configuration::{self, configure, MOST_PATHS, PROTOCOL};
use crate::input::Input;
use crate::network::Network;
use crate::report::{self, Event};

static CONTENT: [u8; 65_536] = [0; 65_536];
/// The time for the last packets to be sent once everything is done.
const FAREWELL: Duration = Duration::from_millis(200);
/// Shorter standstills of a request are not reported.
const STANDSTILL: Duration = Duration::from_millis(10);
/// The name in TLS's server name indication. The certificate is not verified.
const SERVER_NAME: &str = "mprun";

/// The requests of the client.
enum Requests {
    /// A number of answers of one size.
    Equal { requests: u64, response_bytes: u64 },
    /// The size of each answer is a line of standard input. The end of the input ends the last request.
    Read(Input),
}

/// The task of the client.
struct Task {
    requests: Requests,
    request_bytes: u64,
    think: Duration,
    /// (local, remote) of the paths other than the first.
    further: Vec<(SocketAddr, SocketAddr)>,
    keylog: Option<String>,
    qlog: Option<String>,
}

/// The current request.
struct Request {
    stream: u64,
    response_bytes: u64,
    sent_at: Instant,
    moved_at: Instant,
    received_bytes: u64,
    left_to_send: u64,
    line: Option<Bytes>,
}

/// The state of the client, which the library's callbacks and the main loop share.
struct State {
    task: Task,
    began: Instant,
    connected: bool,
    under_way: Option<Request>,
    done: u64,
    done_bytes: u64,
    next_at: Option<Instant>,
    ended: Option<Result<(), String>>,
    validated: Vec<(SocketAddr, SocketAddr)>,
    first_sent: Option<Instant>,
    last_received: Option<Instant>,
    finished: bool,
}

/// Fetches all answers. An error gives the reason for an early end.
pub fn fetch(words: &[String]) -> Result<(), String> {
    let own = ["path", "requests", "response", "request", "think-ns", "keylog", "timeout-ms"];
    let arguments = Arguments::parse(words, &[&own[..], &configuration::KNOWN[..]].concat())?;
    let timeout = Duration::from_millis(arguments.number("timeout-ms", 60_000)?);
    let mut config = configure(&arguments)?;
    let tls = TlsConfig::new_client_config(vec![PROTOCOL.to_vec()], false).map_err(|e| format!("TLS: {e}"))?;
    config.set_tls_config(tls);
    let pairs = arguments.all("path").map(path).collect::<Result<Vec<_>, _>>()?;
    if pairs.is_empty() || pairs.len() as u64 > MOST_PATHS {
        return Err(format!("--path LOCAL,REMOTE:PORT is needed once to {MOST_PATHS} times"));
    }
    let network = Rc::new(Network::bind(&local_addresses(&pairs))?);
    let mut paths = pairs.iter().map(|(local, remote)| (bound(&network, *local), *remote));
    let first = paths.next().ok_or("no path")?;
    let task = Task {
        requests: match arguments.get("requests") {
            Some("-") => Requests::Read(Input::new()),
            _ => Requests::Equal {
                requests: arguments.number("requests", 1)?,
                response_bytes: arguments.number("response", 0)?,
            },
        },
        request_bytes: arguments.number("request", 0)?,
        think: Duration::from_nanos(arguments.number("think-ns", 0)?),
        further: paths.collect(),
        keylog: arguments.get("keylog").map(str::to_string),
        qlog: arguments.get("qlog").map(str::to_string),
    };
    let state = Rc::new(RefCell::new(State::new(task)));
    report::print(&Event::Begin { monotonic_ns: report::monotonic_ns() });
    let sender: Rc<dyn PacketSendHandler> = network.clone();
    let mut endpoint = Endpoint::new(Box::new(config), false, Box::new(Callbacks(state.clone())), sender);
    let index = endpoint
        .connect(first.0, first.1, Some(SERVER_NAME), None, None, None)
        .map_err(|e| format!("connect to {}: {e}", first.1))?;
    run(&network, &mut endpoint, &state, index, timeout)
}

fn path(text: &str) -> Result<(IpAddr, SocketAddr), String> {
    let pair = text.split_once(',').and_then(|(local, remote)| Some((local.parse().ok()?, remote.parse().ok()?)));
    pair.ok_or_else(|| format!("--path {text}: no LOCAL,REMOTE:PORT"))
}

/// Each local address once, in order, with a port that the kernel chooses.
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

/// The main loop. It ends when everything is fetched, the connection is closed or the time is over.
fn run(
    network: &Network,
    endpoint: &mut Endpoint,
    state: &RefCell<State>,
    index: u64,
    timeout: Duration,
) -> Result<(), String> {
    let deadline = Instant::now() + timeout;
    let mut until = deadline;
    loop {
        endpoint.process_connections().map_err(|e| format!("the library gave up: {e}"))?;
        if let Some(ended) = state.borrow_mut().ended.take() {
            return ended;
        }
        let now = Instant::now();
        if now >= until {
            return if state.borrow().finished { Ok(()) } else { Err(state.borrow().late(timeout)) };
        }
        if let Some(connection) = endpoint.conn_get_mut(index) {
            let mut state = state.borrow_mut();
            state.go_on(connection, now);
            if state.finished && until == deadline {
                until = now + FAREWELL;
                state.print_end(connection);
                let _ = connection.close(true, 0, b"done");
            }
        }
        let (wait, input) = (state.borrow().wait(endpoint.timeout(), until), state.borrow().input());
        if network.wait(Some(wait), input) {
            state.borrow_mut().read_input();
        }
        network.receive(endpoint);
        endpoint.on_timeout(Instant::now());
    }
}

impl State {
    fn new(task: Task) -> Self {
        Self {
            task,
            began: Instant::now(),
            connected: false,
            under_way: None,
            done: 0,
            done_bytes: 0,
            next_at: None,
            ended: None,
            validated: Vec::new(),
            first_sent: None,
            last_received: None,
            finished: false,
        }
    }

    /// The time until something has to be done.
    fn wait(&self, timer: Option<Duration>, until: Instant) -> Duration {
        let now = Instant::now();
        let moments = [Some(until), self.next_at].into_iter().flatten();
        let waits = moments.map(|moment| moment.saturating_duration_since(now)).chain(timer);
        waits.min().unwrap_or_default()
    }

    /// Sends the next request when it is due, and records paths that have become usable.
    fn go_on(&mut self, connection: &mut Connection, now: Instant) {
        self.note_paths(connection, now);
        if !self.connected || self.under_way.is_some() || self.finished {
            return;
        }
        match &mut self.task.requests {
            Requests::Equal { response_bytes, .. } => {
                let response_bytes = *response_bytes;
                if self.next_at.is_some_and(|moment| now >= moment) {
                    self.next_at = None;
                    self.send_request(connection, response_bytes);
                }
            }
            Requests::Read(input) => match input.take() {
                Some(response_bytes) => self.send_request(connection, response_bytes),
                None => self.finished = input.is_over(),
            },
        }
    }

    /// The file descriptor of the requests, if more requests may be read from it.
    fn input(&self) -> Option<RawFd> {
        match &self.task.requests {
            Requests::Equal { .. } => None,
            Requests::Read(input) => input.descriptor(),
        }
    }

    /// Reads further requests, which are there.
    fn read_input(&mut self) {
        if let Requests::Read(input) = &mut self.task.requests {
            if let Err(cause) = input.read() {
                self.ended = Some(Err(cause));
            }
        }
    }

    /// Prints a path's validation (RFC 9000 8.2), once.
    fn note_paths(&mut self, connection: &mut Connection, now: Instant) {
        if !self.connected || self.validated.len() == self.task.further.len() {
            return;
        }
        for (local, remote) in self.task.further.clone() {
            let is_valid = connection.get_path(local, remote).is_ok_and(|path| path.validated());
            if is_valid && !self.validated.contains(&(local, remote)) {
                self.validated.push((local, remote));
                let at_ns = report::nanos(now - self.began);
                report::print(&Event::Path { at_ns, local: local.ip(), remote: remote.ip() });
            }
        }
    }

    fn send_request(&mut self, connection: &mut Connection, response_bytes: u64) {
        let stream = match connection.stream_bidi_new(0, false) {
            Ok(stream) => stream,
            Err(error) => {
                self.ended = Some(Err(format!("request {}: no stream: {error}", self.done)));
                return;
            }
        };
        let sent_at = Instant::now();
        self.first_sent.get_or_insert(sent_at);
        let line = Bytes::from(format!("{response_bytes}\n"));
        let left_to_send = self.task.request_bytes;
        let (moved_at, received_bytes, line) = (sent_at, 0, Some(line));
        let request = Request { stream, response_bytes, sent_at, moved_at, received_bytes, left_to_send, line };
        self.under_way.insert(request).send(connection);
    }

    /// Reads what has arrived of the answer. At its end, records the delay and schedules the next request.
    fn read_answer(&mut self, connection: &mut Connection, stream: u64) {
        let Some(request) = self.under_way.as_mut().filter(|request| request.stream == stream) else {
            return;
        };
        let mut buffer = [0u8; 65_536];
        loop {
            match connection.stream_read(stream, &mut buffer) {
                Ok((length, is_end)) => {
                    request.received_bytes += length as u64;
                    request.move_on(self.began);
                    if is_end {
                        self.end_request();
                        return;
                    }
                }
                Err(tquic::Error::Done) => return,
                Err(error) => {
                    self.ended = Some(Err(format!("request {}: its answer ended early: {error}", self.done)));
                    return;
                }
            }
        }
    }

    fn end_request(&mut self) {
        let Some(request) = self.under_way.take() else { return };
        let now = Instant::now();
        let (number, bytes) = (self.done, request.received_bytes);
        let (at_ns, delay_ns) = (report::nanos(request.sent_at - self.began), report::nanos(now - request.sent_at));
        report::print(&Event::Request { number, at_ns, delay_ns, bytes });
        if bytes != request.response_bytes {
            self.ended = Some(Err(format!("request {number}: {bytes} bytes instead of {}", request.response_bytes)));
            return;
        }
        self.done += 1;
        self.done_bytes += bytes;
        self.last_received = Some(now);
        if let Requests::Equal { requests, .. } = self.task.requests {
            if self.done == requests {
                self.finished = true;
            } else {
                self.next_at = Some(now + self.task.think);
            }
        }
    }

    /// The number of answered requests, in words.
    fn progress(&self) -> String {
        match self.task.requests {
            Requests::Equal { requests, .. } => format!("{} of {requests} requests done", self.done),
            Requests::Read(_) => format!("{} requests done", self.done),
        }
    }

    /// The reason why the time was not enough.
    fn late(&self, timeout: Duration) -> String {
        let seconds = timeout.as_secs_f64();
        if !self.connected {
            return format!("no connection after {seconds} s: the server did not answer");
        }
        let part = self.under_way.as_ref().map_or(0, |request| request.received_bytes);
        format!("{} after {seconds} s, {part} bytes of the next: the connection stalled", self.progress())
    }

    /// The last lines: a standstill that did not end, the totals, and the payload of each path.
    fn print_end(&mut self, connection: &mut Connection) {
        if let Some(request) = self.under_way.as_mut() {
            request.move_on(self.began);
        }
        let since = |moment: Option<Instant>| moment.map_or(0, |moment| report::nanos(moment - self.began));
        report::print(&Event::End {
            requests: self.done,
            bytes: self.done_bytes,
            first_request_ns: since(self.first_sent),
            end_ns: since(self.last_received),
            multipath: connection.is_multipath(),
            paths: report::paths(connection),
        });
    }

    /// The reason why the connection ended before everything was fetched.
    fn explain_close(&self, connection: &Connection) -> String {
        let why = if connection.is_handshake_timeout() {
            "the server did not answer".to_string()
        } else if connection.is_idle_timeout() {
            "nothing arrived any more on any path".to_string()
        } else if let Some(error) = connection.peer_error() {
            format!("the server closed it with error {}", error.error_code)
        } else if let Some(error) = connection.local_error() {
            format!("error {}: {}", error.error_code, String::from_utf8_lossy(&error.reason))
        } else {
            "it was reset".to_string()
        };
        format!("{} when the connection ended: {why}", self.progress())
    }
}

impl Request {
    /// Records that the request has progressed. If it stood still before, prints the standstill.
    fn move_on(&mut self, began: Instant) {
        let now = Instant::now();
        if now - self.moved_at >= STANDSTILL {
            let (at_ns, to_ns) = (report::nanos(self.moved_at - began), report::nanos(now - began));
            report::print(&Event::Standstill { at_ns, to_ns });
        }
        self.moved_at = now;
    }

    /// Passes as much of the request to the library as it accepts.
    fn send(&mut self, connection: &mut Connection) {
        if let Some(line) = self.line.take() {
            let whole = self.left_to_send == 0;
            if connection.stream_write(self.stream, line.clone(), whole).is_err() {
                self.line = Some(line);
            }
        }
        while self.line.is_none() && self.left_to_send > 0 {
            let left = self.left_to_send;
            let part = Bytes::from_static(&CONTENT[..left.min(CONTENT.len() as u64) as usize]);
            let is_last = part.len() as u64 == left;
            match connection.stream_write(self.stream, part, is_last) {
                Ok(taken) => self.left_to_send -= taken as u64,
                Err(_) => break,
            }
        }
        let is_unsent = self.line.is_some() || self.left_to_send > 0;
        let _ = connection.stream_want_write(self.stream, is_unsent);
    }
}

struct Callbacks(Rc<RefCell<State>>);

impl TransportHandler for Callbacks {
    fn on_conn_created(&mut self, connection: &mut Connection) {
        if let Some(name) = &self.0.borrow().task.keylog {
            match File::create(name) {
                Ok(file) => connection.set_keylog(Box::new(file)),
                Err(error) => eprintln!("mprun-quic: key log {name}: {error}"),
            }
        }
        if let Some(name) = &self.0.borrow().task.qlog {
            configuration::log_events(connection, name);
        }
    }

    fn on_conn_established(&mut self, connection: &mut Connection) {
        let mut state = self.0.borrow_mut();
        state.connected = true;
        report::print(&Event::Connected { at_ns: report::nanos(state.began.elapsed()) });
        for (local, remote) in state.task.further.clone() {
            if let Err(error) = connection.add_path(local, remote) {
                report::print(&Event::Refused { local: local.ip(), why: error.to_string() });
            }
        }
        if let Requests::Equal { response_bytes, .. } = state.task.requests {
            state.send_request(connection, response_bytes);
        }
    }

    fn on_conn_closed(&mut self, connection: &mut Connection) {
        let mut state = self.0.borrow_mut();
        if state.finished {
            state.ended.get_or_insert(Ok(()));
            return;
        }
        state.print_end(connection);
        let cause = state.explain_close(connection);
        state.ended.get_or_insert(Err(cause));
    }

    fn on_stream_created(&mut self, _: &mut Connection, _: u64) {}

    fn on_stream_readable(&mut self, connection: &mut Connection, stream: u64) {
        self.0.borrow_mut().read_answer(connection, stream);
    }

    fn on_stream_writable(&mut self, connection: &mut Connection, stream: u64) {
        let mut state = self.0.borrow_mut();
        let began = state.began;
        if let Some(request) = state.under_way.as_mut().filter(|request| request.stream == stream) {
            let left_to_send = request.left_to_send;
            request.send(connection);
            if request.left_to_send < left_to_send {
                request.move_on(began);
            }
        }
    }

    fn on_stream_closed(&mut self, _: &mut Connection, _: u64) {}

    fn on_new_token(&mut self, _: &mut Connection, _: Vec<u8>) {}
}
