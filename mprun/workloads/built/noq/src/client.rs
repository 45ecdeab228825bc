// SPDX-License-Identifier: Apache-2.0
//! The client: opens a connection and its other paths, and fetches the answers.

use std::time::{Duration, Instant};

use mprun_exchange::arguments::Arguments;
use mprun_exchange::report::{self, Event as Line};
use mprun_exchange::requests::{self, Pair, Requests};
use mprun_exchange::{SERVER_NAME, SHARED, UPDATE_BYTES};
use noq_proto::{ConnectionError, ConnectionHandle, Event, StreamEvent, VarInt};

use crate::configuration::{self, Policy};
use crate::link::Link;
use crate::stack::Stack;

/// The time for the last packets to be sent once everything is done.
const FAREWELL: Duration = Duration::from_millis(200);
/// The time for a session ticket to arrive once the handshake is complete.
const TICKET: Duration = Duration::from_millis(200);

/// Fetches all answers. An error gives the reason for an early end.
pub fn fetch(words: &[String]) -> Result<(), String> {
    let arguments = Arguments::parse(words, &[&requests::KNOWN[..], &SHARED[..], &["backup"]].concat())?;
    let timeout = Duration::from_millis(arguments.number("timeout-ms", 60_000)?);
    let policy = Policy::parse(&arguments)?;
    let backups = arguments
        .all("backup")
        .map(|pair| configuration::addresses(pair).ok_or_else(|| format!("--backup {pair}: no LOCAL,REMOTE")));
    let backups = backups.collect::<Result<Vec<_>, _>>()?;
    let (network, mut paths) = requests::bind(&arguments)?;
    network.forbid_fragments()?;
    let first = paths.remove(0);
    let config = configuration::client(&arguments, &policy, first.0.is_ipv6())?;
    let requests = Requests::new(&arguments, paths)?;
    report::print(&Line::Begin { monotonic_ns: report::monotonic_ns() });
    let mut stack = Stack::new(network, policy.clone(), None);
    let open: Box<Open> = Box::new(move |stack, further| {
        let (handle, connection) = stack
            .endpoint
            .connect(Instant::now(), config.clone(), first.1, SERVER_NAME)
            .map_err(|e| format!("connect to {}: {e}", first.1))?;
        let mut link = Link::new(connection, policy.clone(), first, further);
        link.declare_backups(&backups);
        stack.links.insert(handle, link);
        Ok(handle)
    });
    let case = arguments.get("testcase");
    if matches!(case, Some("resumption" | "zerortt")) {
        get_ticket(&mut stack, &open)?;
    }
    run(&mut stack, &open, requests, timeout, case == Some("keyupdate"))
}

/// Opens a connection whose further paths are between these addresses.
type Open = dyn Fn(&mut Stack, &[Pair]) -> Result<ConnectionHandle, String>;

/// Opens a connection without requests, and closes it. The configuration keeps its session ticket, which the server
/// sends after the handshake.
fn get_ticket(stack: &mut Stack, open: &Open) -> Result<(), String> {
    let handle = open(stack, &[])?;
    let mut until = None;
    while let Some(link) = stack.links.get_mut(&handle) {
        let now = Instant::now();
        while let Some(event) = link.poll() {
            match event {
                Event::Connected => until = Some(now + TICKET),
                Event::ConnectionLost { reason } => return Err(explain(&reason)),
                _ => {}
            }
        }
        if until.is_some_and(|moment| now >= moment) {
            link.connection.close(now, VarInt::from_u32(0), "done".into());
            stack.send();
            return Ok(());
        }
        stack.send();
        let left = until.map(|moment| moment.saturating_duration_since(now));
        let wait = left.into_iter().chain(stack.timer()).min();
        stack.network.wait(wait, None);
        stack.receive();
        stack.expire();
    }
    Err("the connection for a session ticket ended".to_string())
}

/// The main loop. It ends when everything is fetched, the connection is closed or the time is over.
///
/// updates_keys: update the keys of the connection once.
fn run(
    stack: &mut Stack,
    open: &Open,
    mut requests: Requests,
    timeout: Duration,
    mut updates_keys: bool,
) -> Result<(), String> {
    let mut handle = open(stack, &requests.further())?;
    let deadline = Instant::now() + timeout;
    let mut until = deadline;
    if let Some(link) = stack.links.get_mut(&handle).filter(|link| link.connection.has_0rtt()) {
        requests.begin(link);
    }
    loop {
        let now = Instant::now();
        if let Some(link) = stack.links.get_mut(&handle) {
            if let Some(reason) = take_events(link, &mut requests) {
                requests.print_end(link);
                return Err(requests.explain_close(&explain(&reason)));
            }
            requests.go_on(link, now);
            if requests.is_finished() && until == deadline {
                until = now + FAREWELL;
                requests.print_end(link);
                link.connection.close(now, VarInt::from_u32(0), "done".into());
            }
            if updates_keys && requests.received_bytes() > UPDATE_BYTES {
                link.connection.force_key_update();
                updates_keys = false;
            }
            if requests.take_reconnection() {
                link.connection.close(now, VarInt::from_u32(0), "done".into());
                handle = open(stack, &requests.further())?;
            }
        }
        if let Some(cause) = requests.failure() {
            return Err(cause);
        }
        stack.send();
        stack.sweep();
        if now >= until || stack.links.is_empty() {
            return if requests.is_finished() { Ok(()) } else { Err(requests.explain_late(timeout)) };
        }
        let wait = requests.wait(stack.timer(), until);
        if stack.network.wait(Some(wait), requests.input()) {
            requests.read_input();
        }
        stack.receive();
        stack.expire();
    }
}

/// Handles what has happened. Returns why the connection ended, if it has before everything was fetched.
fn take_events(link: &mut Link, requests: &mut Requests) -> Option<ConnectionError> {
    while let Some(event) = link.poll() {
        match event {
            Event::Connected => {
                requests.connect();
                link.set_statuses();
                if !requests.has_begun() {
                    requests.begin(link);
                }
            }
            Event::Stream(StreamEvent::Readable { id }) => requests.read(link, id.into()),
            Event::Stream(StreamEvent::Writable { id }) => requests.write(link, id.into()),
            Event::ConnectionLost { reason } if !requests.is_finished() => return Some(reason),
            _ => {}
        }
    }
    if requests.is_connected() && !requests.is_finished() {
        link.open_paths(Instant::now());
    }
    None
}

/// The library's reason for the end of a connection, in words.
fn explain(reason: &ConnectionError) -> String {
    match reason {
        ConnectionError::TimedOut => "nothing arrived any more on any path".to_string(),
        ConnectionError::ConnectionClosed(frame) => format!("the server closed it with error {}", frame.error_code),
        ConnectionError::ApplicationClosed(frame) => format!("the server closed it with error {}", frame.error_code),
        other => other.to_string(),
    }
}
