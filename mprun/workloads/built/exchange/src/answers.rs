// SPDX-License-Identifier: Apache-2.0
//! The server's side of requests: reads each, and answers it with the wanted number of bytes.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::arguments::Arguments;
use crate::network::Network;
use crate::{part_of, Connection};

/// The names of the server's own arguments.
pub const KNOWN: [&str; 3] = ["listen", "certificate", "key"];
/// The longest line at the beginning of a request.
const LONGEST_LINE: usize = 20;

/// Binds each address to listen on.
pub fn bind(arguments: &Arguments) -> Result<Network, String> {
    let parse = |text: &str| text.parse::<SocketAddr>().map_err(|_| format!("--listen {text}: no ADDRESS:PORT"));
    let addresses = arguments.all("listen").map(parse).collect::<Result<Vec<_>, _>>()?;
    if addresses.is_empty() {
        return Err("--listen is missing".to_string());
    }
    Network::bind(&addresses)
}

/// Reports the addresses, once the server is ready.
pub fn report_listening(network: &Network) {
    eprintln!("listening on {}", network.addresses().iter().map(|a| a.to_string()).collect::<Vec<_>>().join(" "));
}

/// A request that is being read, then its answer that is being sent.
#[derive(Default)]
struct Exchange {
    line: Vec<u8>,
    wanted: Option<u64>,
    left: Option<u64>,
}

/// The exchanges of each connection, by its number and stream.
#[derive(Default)]
pub struct Answers {
    exchanges: BTreeMap<(u64, u64), Exchange>,
}

impl Answers {
    /// Begins an exchange. The client has opened a stream.
    pub fn open(&mut self, number: u64, stream: u64) {
        self.exchanges.insert((number, stream), Exchange::default());
    }

    /// Reads what has arrived of a request, and answers it at its end.
    pub fn read(&mut self, connection: &mut dyn Connection, number: u64, stream: u64) {
        let Some(exchange) = self.exchanges.get_mut(&(number, stream)) else {
            return;
        };
        let mut taken = Ok(());
        let read = connection.read(stream, &mut |part| taken = taken.and_then(|()| exchange.take(part)));
        let is_end = read == Ok(true);
        if taken.is_err() || (is_end && exchange.wanted.is_none()) {
            connection.refuse(stream);
        } else if is_end {
            exchange.left = exchange.wanted;
            exchange.answer(connection, stream);
        }
    }

    /// Sends more of an answer. The library accepts more.
    pub fn write(&mut self, connection: &mut dyn Connection, number: u64, stream: u64) {
        if let Some(exchange) = self.exchanges.get_mut(&(number, stream)) {
            exchange.answer(connection, stream);
        }
    }

    /// Forgets a stream that has ended.
    pub fn close(&mut self, number: u64, stream: u64) {
        self.exchanges.remove(&(number, stream));
    }

    /// Forgets the streams of a connection that has ended.
    pub fn close_all(&mut self, number: u64) {
        self.exchanges.retain(|(owner, _), _| *owner != number);
    }
}

impl Exchange {
    /// Reads a part of the request. Error: a line that is not a number.
    fn take(&mut self, part: &[u8]) -> Result<(), ()> {
        if self.wanted.is_some() {
            return Ok(());
        }
        let end = part.iter().position(|byte| *byte == b'\n');
        self.line.extend_from_slice(&part[..end.unwrap_or(part.len())]);
        if end.is_none() {
            return if self.line.len() > LONGEST_LINE { Err(()) } else { Ok(()) };
        }
        let text = std::str::from_utf8(&self.line).map_err(|_| ())?;
        self.wanted = Some(text.parse().map_err(|_| ())?);
        Ok(())
    }

    /// Passes as much of the answer to the library as it accepts.
    fn answer(&mut self, connection: &mut dyn Connection, stream: u64) {
        while let Some(left) = self.left {
            let (part, is_last) = part_of(left);
            match connection.write(stream, part, is_last) {
                Some(taken) if is_last && taken as u64 == left => self.left = None,
                Some(taken) => self.left = Some(left - taken as u64),
                // The buffer is full. The library reports when it accepts more.
                None => break,
            }
        }
        connection.want_write(stream, self.left.is_some());
    }
}
