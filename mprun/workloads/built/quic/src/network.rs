// SPDX-License-Identifier: Apache-2.0
//! The library's way to the sockets.

use std::rc::Rc;

use mprun_exchange::network::Network;
use tquic::{Endpoint, PacketInfo, PacketSendHandler};

/// Sends the library's packets.
pub struct Sender(pub Rc<Network>);

impl PacketSendHandler for Sender {
    fn on_packets_send(&self, packets: &[(Vec<u8>, PacketInfo)]) -> tquic::Result<usize> {
        let sent = packets.iter().take_while(|(data, info)| self.0.send(info.src, info.dst, data));
        Ok(sent.count())
    }
}

/// Passes received datagrams to the library. A datagram that the library refuses is like a lost one.
pub fn receive(network: &Network, endpoint: &mut Endpoint) {
    network.receive(|local, remote, data, time| {
        let _ = endpoint.recv(data, &PacketInfo { src: remote, dst: local, time });
    });
}
