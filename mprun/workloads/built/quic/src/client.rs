// SPDX-License-Identifier: Apache-2.0
//! The client: opens a connection and its other paths, and fetches the answers.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mprun_exchange::arguments::Arguments;
use mprun_exchange::network::Network;
use mprun_exchange::report::{self, Event};
use mprun_exchange::requests::{self, Pair, Requests};
use mprun_exchange::{PROTOCOL, SERVER_NAME, SHARED, UPDATE_BYTES};
use tquic::connection::Connection;
use tquic::{Endpoint, TlsConfig, TransportHandler};

use crate::configuration::{self, configure};
use crate::connection::Of;
use crate::network::{self, Sender};

/// The time for the last packets to be sent once everything is done.
const FAREWELL: Duration = Duration::from_millis(200);

/// The state of the client, which the library's callbacks and the main loop share.
struct State {
    requests: Requests,
    /// The number of the connection that carries the requests. Earlier connections may not have ended yet.
    current: Option<u64>,
    /// The connection is closed once it has a session ticket, and another one continues it.
    awaits_ticket: bool,
    keylog: Option<String>,
    /// The file for the events of the first connection.
    qlog: Option<String>,
    ended: Option<Result<(), String>>,
}

/// Fetches all answers. An error gives the reason for an early end.
pub fn fetch(words: &[String]) -> Result<(), String> {
    let arguments = Arguments::parse(words, &[&requests::KNOWN[..], &SHARED[..]].concat())?;
    let timeout = Duration::from_millis(arguments.number("timeout-ms", 60_000)?);
    let mut config = configure(&arguments)?;
    let case = arguments.get("testcase");
    let tls = TlsConfig::new_client_config(vec![PROTOCOL.to_vec()], case == Some("zerortt"))
        .map_err(|e| format!("TLS: {e}"))?;
    config.set_tls_config(tls);
    let (network, mut paths) = requests::bind(&arguments)?;
    let network = Rc::new(network);
    let first = paths.remove(0);
    let state = Rc::new(RefCell::new(State {
        requests: Requests::new(&arguments, paths)?,
        current: None,
        awaits_ticket: matches!(case, Some("resumption" | "zerortt")),
        keylog: arguments.get("keylog").map(str::to_string),
        qlog: arguments.get("qlog").map(str::to_string),
        ended: None,
    }));
    report::print(&Event::Begin { monotonic_ns: report::monotonic_ns() });
    let sender = Rc::new(Sender(network.clone()));
    let mut endpoint = Endpoint::new(Box::new(config), false, Box::new(Callbacks(state.clone())), sender);
    run(&network, &mut endpoint, &state, first, timeout, case == Some("keyupdate"))
}

/// Opens a connection for the requests, with the session ticket of an earlier one.
fn connect(endpoint: &mut Endpoint, state: &RefCell<State>, first: Pair, session: Option<&[u8]>) -> Result<(), String> {
    let index = endpoint
        .connect(first.0, first.1, Some(SERVER_NAME), session, None, None)
        .map_err(|e| format!("connect to {}: {e}", first.1))?;
    state.borrow_mut().current = Some(index);
    if let Some(connection) = endpoint.conn_get_mut(index).filter(|connection| connection.is_in_early_data()) {
        state.borrow_mut().requests.begin(&mut Of(connection));
    }
    Ok(())
}

/// The main loop. It ends when everything is fetched, the connection is closed or the time is over.
///
/// updates_keys: update the keys of the connection once.
fn run(
    network: &Network,
    endpoint: &mut Endpoint,
    state: &RefCell<State>,
    first: Pair,
    timeout: Duration,
    mut updates_keys: bool,
) -> Result<(), String> {
    connect(endpoint, state, first, None)?;
    let deadline = Instant::now() + timeout;
    let mut until = deadline;
    loop {
        endpoint.process_connections().map_err(|e| format!("the library gave up: {e}"))?;
        if let Some(ended) = state.borrow_mut().take_end() {
            return ended;
        }
        let now = Instant::now();
        if now >= until {
            let requests = &state.borrow().requests;
            return if requests.is_finished() { Ok(()) } else { Err(requests.explain_late(timeout)) };
        }
        let current = state.borrow().current;
        let mut session = None;
        let mut reconnects = false;
        if let Some(connection) = current.and_then(|index| endpoint.conn_get_mut(index)) {
            let state = &mut *state.borrow_mut();
            let requests = &mut state.requests;
            requests.go_on(&mut Of(connection), now);
            if requests.is_finished() && until == deadline {
                until = now + FAREWELL;
                requests.print_end(&mut Of(connection));
                let _ = connection.close(true, 0, b"done");
            }
            if updates_keys && requests.received_bytes() > UPDATE_BYTES {
                updates_keys = !connection.update_keys();
            }
            if state.awaits_ticket {
                session = connection.session().map(<[u8]>::to_vec);
                state.awaits_ticket = session.is_none();
            }
            reconnects = requests.take_reconnection() || session.is_some();
            if reconnects {
                let _ = connection.close(true, 0, b"done");
            }
        }
        if reconnects {
            connect(endpoint, state, first, session.as_deref())?;
        }
        let wait = state.borrow().requests.wait(endpoint.timeout(), until);
        let input = state.borrow().requests.input();
        if network.wait(Some(wait), input) {
            state.borrow_mut().requests.read_input();
        }
        network::receive(network, endpoint);
        endpoint.on_timeout(Instant::now());
    }
}

impl State {
    /// Returns true if the connection carries the requests.
    fn is_current(&self, connection: &Connection) -> bool {
        self.current.is_some() && connection.index() == self.current
    }

    /// Returns how the client ended, if it has.
    fn take_end(&mut self) -> Option<Result<(), String>> {
        self.ended.take().or_else(|| self.requests.failure().map(Err))
    }
}

/// The library's reason for the end of a connection, in words.
fn explain(connection: &Connection) -> String {
    if connection.is_handshake_timeout() {
        "the server did not answer".to_string()
    } else if connection.is_idle_timeout() {
        "nothing arrived any more on any path".to_string()
    } else if let Some(error) = connection.peer_error() {
        format!("the server closed it with error {}", error.error_code)
    } else if let Some(error) = connection.local_error() {
        format!("error {}: {}", error.error_code, String::from_utf8_lossy(&error.reason))
    } else {
        "it was reset".to_string()
    }
}

struct Callbacks(Rc<RefCell<State>>);

impl TransportHandler for Callbacks {
    fn on_conn_created(&mut self, connection: &mut Connection) {
        if let Some(name) = &self.0.borrow().keylog {
            match OpenOptions::new().append(true).create(true).open(name) {
                Ok(file) => connection.set_keylog(Box::new(file)),
                Err(error) => eprintln!("mprun-quic: key log {name}: {error}"),
            }
        }
        if let Some(name) = self.0.borrow_mut().qlog.take() {
            configuration::log_events(connection, &name);
        }
    }

    fn on_conn_established(&mut self, connection: &mut Connection) {
        let state = &mut *self.0.borrow_mut();
        if state.awaits_ticket {
            return;
        }
        let requests = &mut state.requests;
        requests.connect();
        for (local, remote) in requests.further() {
            if let Err(error) = connection.add_path(local, remote) {
                report::print(&Event::Refused { local: local.ip(), why: error.to_string() });
            }
        }
        if !requests.has_begun() {
            requests.begin(&mut Of(connection));
        }
    }

    fn on_conn_closed(&mut self, connection: &mut Connection) {
        let mut state = self.0.borrow_mut();
        if !state.is_current(connection) {
            return;
        }
        if state.requests.is_finished() {
            state.ended.get_or_insert(Ok(()));
            return;
        }
        state.requests.print_end(&mut Of(connection));
        let cause = state.requests.explain_close(&explain(connection));
        state.ended.get_or_insert(Err(cause));
    }

    fn on_stream_created(&mut self, _: &mut Connection, _: u64) {}

    fn on_stream_readable(&mut self, connection: &mut Connection, stream: u64) {
        self.0.borrow_mut().requests.read(&mut Of(connection), stream);
    }

    fn on_stream_writable(&mut self, connection: &mut Connection, stream: u64) {
        self.0.borrow_mut().requests.write(&mut Of(connection), stream);
    }

    fn on_stream_closed(&mut self, _: &mut Connection, _: u64) {}

    fn on_new_token(&mut self, _: &mut Connection, _: Vec<u8>) {}
}
