// SPDX-License-Identifier: Apache-2.0
//! One UDP socket for each local address, and the wait for any of them, for another input, or for a time.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// The largest datagram that may arrive.
const LARGEST: usize = 65_535;
/// The number of datagrams that are read from one socket before the library answers.
const BATCH: usize = 64;

/// The sockets of one end.
pub struct Network {
    sockets: Vec<(SocketAddr, UdpSocket)>,
}

impl Network {
    /// Binds each address. A port of 0 lets the kernel choose.
    pub fn bind(addresses: &[SocketAddr]) -> Result<Self, String> {
        let mut sockets: Vec<(SocketAddr, UdpSocket)> = Vec::new();
        for address in addresses {
            let attempt = || -> std::io::Result<(SocketAddr, UdpSocket)> {
                let socket = UdpSocket::bind(address)?;
                socket.set_nonblocking(true)?;
                Ok((socket.local_addr()?, socket))
            };
            sockets.push(attempt().map_err(|e| format!("bind {address}: {e}"))?);
        }
        Ok(Self { sockets })
    }

    /// The bound addresses, in order.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().map(|(address, _)| *address).collect()
    }

    /// Lets the kernel fragment no datagram, not even one that is larger than a link on the way (ip(7)).
    pub fn forbid_fragments(&self) -> Result<(), String> {
        for (address, socket) in &self.sockets {
            let (level, name, value) = match address {
                SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
                SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE),
            };
            let pointer = std::ptr::from_ref(&value).cast();
            let length = std::mem::size_of_val(&value) as libc::socklen_t;
            // SAFETY: the pointer is to a value of this length that outlives the call.
            if unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, pointer, length) } != 0 {
                return Err(format!("{address}: {}", std::io::Error::last_os_error()));
            }
        }
        Ok(())
    }

    /// Sleeps until a datagram arrives, a further file descriptor can be read, or `wait` is over. `None` means for
    /// ever. Returns true if the further file descriptor can be read or has ended.
    pub fn wait(&self, wait: Option<Duration>, further: Option<RawFd>) -> bool {
        let descriptors = self.sockets.iter().map(|(_, socket)| socket.as_raw_fd()).chain(further);
        let entry = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut entries: Vec<libc::pollfd> = descriptors.map(entry).collect();
        let time = wait
            .map(|wait| libc::timespec { tv_sec: wait.as_secs() as libc::time_t, tv_nsec: wait.subsec_nanos().into() });
        let time = time.as_ref().map_or(std::ptr::null(), |time| time as *const libc::timespec);
        // SAFETY: both point to values that outlive the call.
        let ready = unsafe { libc::ppoll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, time, std::ptr::null()) };
        ready > 0 && further.is_some() && entries.last().is_some_and(|entry| entry.revents != 0)
    }

    /// Passes each received datagram on: the local address, the remote address, the content, and the time.
    pub fn receive(&self, mut take: impl FnMut(SocketAddr, SocketAddr, &mut [u8], Instant)) {
        let mut buffer = [0u8; LARGEST];
        let now = Instant::now();
        for (local, socket) in &self.sockets {
            for _ in 0..BATCH {
                let (length, remote) = match socket.recv_from(&mut buffer) {
                    Ok(arrived) => arrived,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // An earlier datagram was refused (ICMP). The next one may arrive.
                    Err(_) => continue,
                };
                take(*local, remote, &mut buffer[..length], now);
            }
        }
    }

    /// Sends a datagram from the socket of its source address. A datagram that the kernel refuses, as on a link that is
    /// down, is like a lost one: the library sends its content again. Returns false if the socket's buffer is full.
    pub fn send(&self, local: SocketAddr, remote: SocketAddr, data: &[u8]) -> bool {
        let Some((_, socket)) = self.sockets.iter().find(|(address, _)| *address == local) else {
            return true;
        };
        !matches!(socket.send_to(data, remote), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}
