// SPDX-License-Identifier: Apache-2.0
//! The server: answers each request with the requested number of bytes, until a signal ends it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use tquic::connection::Connection;
use tquic::{Endpoint, PacketSendHandler, Shutdown, TlsConfig, TransportHandler};

use crate::arguments::Arguments;
use crate::configuration::{self, configure, PROTOCOL};
use crate::network::Network;
use crate::report::{self, Event};

/// The content of answers. It does not matter, because it is encrypted on the wire.
static CONTENT: [u8; 65_536] = [0; 65_536];
/// The longest line at the beginning of a request.
const LONGEST_LINE: usize = 20;

/// Runs for ever. An error gives the reason why the server could not start.
pub fn serve(words: &[String]) -> Result<(), String> {
    let known = [&["listen", "certificate", "key"], &configuration::KNOWN[..]].concat();
    let arguments = Arguments::parse(words, &known)?;
    let parse = |text: &str| text.parse::<SocketAddr>().map_err(|_| format!("--listen {text}: no ADDRESS:PORT"));
    let addresses = arguments.all("listen").map(parse).collect::<Result<Vec<_>, _>>()?;
    if addresses.is_empty() {
        return Err("--listen is missing".to_string());
    }
    let mut config = configure(&arguments)?;
    let (certificate, key) = (arguments.require("certificate")?, arguments.require("key")?);
    let tls = TlsConfig::new_server_config(certificate, key, vec![PROTOCOL.to_vec()], false)
        .map_err(|e| format!("certificate {certificate}, key {key}: {e}"))?;
    config.set_tls_config(tls);
    let network = Rc::new(Network::bind(&addresses)?);
    let sender: Rc<dyn PacketSendHandler> = network.clone();
    let mut endpoint = Endpoint::new(Box::new(config), true, Box::new(Answers { qlog: arguments.get("qlog").map(str::to_string), ..Answers::default() }), sender);
    eprintln!("listening on {}", network.addresses().iter().map(|a| a.to_string()).collect::<Vec<_>>().join(" "));
    loop {
        network.wait(endpoint.timeout(), None);
        network.receive(&mut endpoint);
        endpoint.on_timeout(Instant::now());
        endpoint.process_connections().map_err(|e| format!("the library gave up: {e}"))?;
    }
}

/// A request that is being read, then its answer that is being sent.
#[derive(Default)]
struct Exchange {
    line: Vec<u8>,
    wanted: Option<u64>,
    body_bytes: u64,
    left: Option<u64>,
}

/// Exchanges by connection and stream.
#[derive(Default)]
struct Answers {
    /// The file for the events of the first connection.
    qlog: Option<String>,
    exchanges: BTreeMap<(u64, u64), Exchange>,
}

impl Exchange {
    /// Reads a part of the request. Error: a line that is not a number.
    fn take(&mut self, mut part: &[u8]) -> Result<(), ()> {
        if self.wanted.is_none() {
            let end = part.iter().position(|byte| *byte == b'\n');
            self.line.extend_from_slice(&part[..end.unwrap_or(part.len())]);
            let Some(end) = end else {
                return if self.line.len() > LONGEST_LINE { Err(()) } else { Ok(()) };
            };
            let text = std::str::from_utf8(&self.line).map_err(|_| ())?;
            self.wanted = Some(text.parse().map_err(|_| ())?);
            part = &part[end + 1..];
        }
        self.body_bytes += part.len() as u64;
        Ok(())
    }

    /// Passes as much of the answer to the library as it accepts.
    fn answer(&mut self, connection: &mut Connection, stream: u64) {
        while let Some(left) = self.left {
            let part = Bytes::from_static(&CONTENT[..left.min(CONTENT.len() as u64) as usize]);
            let is_last = part.len() as u64 == left;
            match connection.stream_write(stream, part, is_last) {
                Ok(taken) if is_last && taken as u64 == left => self.left = None,
                Ok(taken) => self.left = Some(left - taken as u64),
                // The buffer is full. The library reports when it accepts more.
                Err(_) => break,
            }
        }
        let _ = connection.stream_want_write(stream, self.left.is_some());
    }
}

impl TransportHandler for Answers {
    fn on_conn_created(&mut self, connection: &mut Connection) {
        if let Some(name) = self.qlog.take() {
            configuration::log_events(connection, &name);
        }
    }

    fn on_conn_established(&mut self, _: &mut Connection) {}

    fn on_conn_closed(&mut self, connection: &mut Connection) {
        let index = connection.index().unwrap_or(u64::MAX);
        self.exchanges.retain(|(owner, _), _| *owner != index);
        report::print(&Event::Closed { paths: report::paths(connection) });
    }

    fn on_stream_created(&mut self, connection: &mut Connection, stream: u64) {
        self.exchanges.insert((connection.index().unwrap_or(u64::MAX), stream), Exchange::default());
    }

    fn on_stream_readable(&mut self, connection: &mut Connection, stream: u64) {
        let Some(exchange) = self.exchanges.get_mut(&(connection.index().unwrap_or(u64::MAX), stream)) else {
            return;
        };
        let mut buffer = [0u8; 65_536];
        while let Ok((length, is_end)) = connection.stream_read(stream, &mut buffer) {
            if exchange.take(&buffer[..length]).is_err() || (is_end && exchange.wanted.is_none()) {
                let _ = connection.stream_shutdown(stream, Shutdown::Write, 1);
                return;
            }
            if is_end {
                exchange.left = exchange.wanted;
                exchange.answer(connection, stream);
                return;
            }
        }
    }

    fn on_stream_writable(&mut self, connection: &mut Connection, stream: u64) {
        if let Some(exchange) = self.exchanges.get_mut(&(connection.index().unwrap_or(u64::MAX), stream)) {
            exchange.answer(connection, stream);
        }
    }

    fn on_stream_closed(&mut self, connection: &mut Connection, stream: u64) {
        self.exchanges.remove(&(connection.index().unwrap_or(u64::MAX), stream));
    }

    fn on_new_token(&mut self, _: &mut Connection, _: Vec<u8>) {}
}
