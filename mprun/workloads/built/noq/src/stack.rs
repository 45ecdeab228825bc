// SPDX-License-Identifier: Apache-2.0
//! The library's endpoint with its connections and sockets. The library itself does no input or output.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use mprun_exchange::network::Network;
use noq_proto::{ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, FourTuple, ServerConfig, Transmit};

use crate::configuration::Policy;
use crate::link::Link;

/// The time until a datagram that the kernel did not accept is sent again.
const RETRY: Duration = Duration::from_millis(1);

/// A datagram that the kernel has not accepted yet.
struct Datagram {
    local: SocketAddr,
    remote: SocketAddr,
    data: Vec<u8>,
}

/// The endpoint of a client or a server.
pub struct Stack {
    pub network: Network,
    pub endpoint: Endpoint,
    pub links: BTreeMap<ConnectionHandle, Link>,
    /// The server answers the first Initial packet of a client with a Retry packet.
    pub retries: bool,
    policy: Policy,
    waiting: Option<Datagram>,
}

impl Stack {
    /// An endpoint without a connection. server: None on the client.
    pub fn new(network: Network, policy: Policy, server: Option<ServerConfig>) -> Self {
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), server.map(Arc::new), true);
        Self { network, endpoint, links: BTreeMap::new(), retries: false, policy, waiting: None }
    }

    /// Passes received datagrams to the connections. The server accepts new connections.
    pub fn receive(&mut self) {
        let Self { network, endpoint, links, retries, policy, .. } = self;
        let mut answers: Vec<(SocketAddr, SocketAddr, Vec<u8>)> = Vec::new();
        network.receive(|local, remote, data, now| {
            let mut answer = Vec::new();
            let path = FourTuple::new(remote, Some(local.ip()));
            match endpoint.handle(now, path, None, BytesMut::from(&data[..]), &mut answer) {
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    if let Some(link) = links.get_mut(&handle) {
                        link.connection.handle_event(event);
                    }
                }
                Some(DatagramEvent::NewConnection(incoming)) if *retries && !incoming.remote_address_validated() => {
                    if endpoint.retry(incoming, &mut answer).is_ok() {
                        answers.push((local, remote, answer));
                    }
                }
                Some(DatagramEvent::NewConnection(incoming)) => {
                    // A connection that is refused is like one that nobody has tried.
                    if let Ok((handle, connection)) = endpoint.accept(incoming, now, &mut answer, None) {
                        links.insert(handle, Link::new(connection, policy.clone(), (local, remote), &[]));
                    }
                }
                Some(DatagramEvent::Response(_)) => answers.push((local, remote, answer)),
                None => {}
            }
        });
        for (local, remote, answer) in answers {
            self.network.send(local, remote, &answer);
        }
    }

    /// Lets the timers of all connections expire that are due.
    pub fn expire(&mut self) {
        let now = Instant::now();
        for link in self.links.values_mut() {
            while link.connection.poll_timeout().is_some_and(|moment| moment <= now) {
                link.connection.handle_timeout(now);
            }
        }
    }

    /// Sends what the connections have to send.
    pub fn send(&mut self) {
        if let Some(datagram) = self.waiting.take() {
            if !self.network.send(datagram.local, datagram.remote, &datagram.data) {
                self.waiting = Some(datagram);
                return;
            }
        }
        let now = Instant::now();
        let handles: Vec<ConnectionHandle> = self.links.keys().copied().collect();
        for handle in handles {
            self.pass_events(handle);
            while self.waiting.is_none() && self.send_one(handle, now) {}
            self.pass_events(handle);
        }
    }

    fn send_one(&mut self, handle: ConnectionHandle, now: Instant) -> bool {
        let Some(link) = self.links.get_mut(&handle) else { return false };
        let mut data = Vec::new();
        let Some(transmit) = link.connection.poll_transmit(now, NonZeroUsize::MIN, &mut data) else {
            return false;
        };
        let local = local_of(&self.network, transmit.src_ip.unwrap_or(link.first_local()));
        let Transmit { destination: remote, .. } = transmit;
        if !self.network.send(local, remote, &data) {
            self.waiting = Some(Datagram { local, remote, data });
        }
        true
    }

    /// Passes events between the endpoint and a connection.
    fn pass_events(&mut self, handle: ConnectionHandle) {
        let Some(link) = self.links.get_mut(&handle) else { return };
        while let Some(event) = link.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                link.connection.handle_event(event);
            }
        }
    }

    /// Forgets the connections that have ended.
    pub fn sweep(&mut self) {
        self.links.retain(|_, link| !link.connection.is_drained());
    }

    /// Returns the time until a timer of any connection expires.
    pub fn timer(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let timers = self.links.values_mut().filter_map(|link| link.connection.poll_timeout());
        let first = timers.min().map(|moment| moment.saturating_duration_since(now));
        let retry = self.waiting.as_ref().map(|_| RETRY);
        first.into_iter().chain(retry).min()
    }
}

/// The socket address that was bound for a local address.
fn local_of(network: &Network, local: IpAddr) -> SocketAddr {
    let addresses = network.addresses();
    addresses.into_iter().find(|address| address.ip() == local).unwrap_or(SocketAddr::new(local, 0))
}
