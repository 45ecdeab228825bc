// SPDX-License-Identifier: Apache-2.0
//! The server: answers each request with the requested number of bytes, until a signal ends it.

use std::rc::Rc;
use std::time::Instant;

use mprun_exchange::answers::Answers;
use mprun_exchange::arguments::Arguments;
use mprun_exchange::report::{self, Event};
use mprun_exchange::{answers, Connection as _, PROTOCOL, SHARED};
use tquic::connection::Connection;
use tquic::{Endpoint, TlsConfig, TransportHandler};

use crate::configuration::{self, configure};
use crate::connection::Of;
use crate::network::{self, Sender};

/// Runs for ever. An error gives the reason why the server could not start.
pub fn serve(words: &[String]) -> Result<(), String> {
    let arguments = Arguments::parse(words, &[&answers::KNOWN[..], &SHARED[..]].concat())?;
    let mut config = configure(&arguments)?;
    let case = arguments.get("testcase");
    config.enable_retry(case == Some("retry"));
    let (certificate, key) = (arguments.require("certificate")?, arguments.require("key")?);
    let tls = TlsConfig::new_server_config(certificate, key, vec![PROTOCOL.to_vec()], case == Some("zerortt"))
        .map_err(|e| format!("certificate {certificate}, key {key}: {e}"))?;
    config.set_tls_config(tls);
    let network = Rc::new(answers::bind(&arguments)?);
    let callbacks = Callbacks { qlog: arguments.get("qlog").map(str::to_string), answers: Answers::default() };
    let sender = Rc::new(Sender(network.clone()));
    let mut endpoint = Endpoint::new(Box::new(config), true, Box::new(callbacks), sender);
    answers::report_listening(&network);
    loop {
        network.wait(endpoint.timeout(), None);
        network::receive(&network, &mut endpoint);
        endpoint.on_timeout(Instant::now());
        endpoint.process_connections().map_err(|e| format!("the library gave up: {e}"))?;
    }
}

struct Callbacks {
    /// The file for the events of the first connection.
    qlog: Option<String>,
    answers: Answers,
}

/// The number of a connection.
fn number(connection: &Connection) -> u64 {
    connection.index().unwrap_or(u64::MAX)
}

impl TransportHandler for Callbacks {
    fn on_conn_created(&mut self, connection: &mut Connection) {
        if let Some(name) = self.qlog.take() {
            configuration::log_events(connection, &name);
        }
    }

    fn on_conn_established(&mut self, _: &mut Connection) {}

    fn on_conn_closed(&mut self, connection: &mut Connection) {
        self.answers.close_all(number(connection));
        report::print(&Event::Closed { paths: Of(connection).paths() });
    }

    fn on_stream_created(&mut self, connection: &mut Connection, stream: u64) {
        self.answers.open(number(connection), stream);
    }

    fn on_stream_readable(&mut self, connection: &mut Connection, stream: u64) {
        let number = number(connection);
        self.answers.read(&mut Of(connection), number, stream);
    }

    fn on_stream_writable(&mut self, connection: &mut Connection, stream: u64) {
        let number = number(connection);
        self.answers.write(&mut Of(connection), number, stream);
    }

    fn on_stream_closed(&mut self, connection: &mut Connection, stream: u64) {
        self.answers.close(number(connection), stream);
    }

    fn on_new_token(&mut self, _: &mut Connection, _: Vec<u8>) {}
}
