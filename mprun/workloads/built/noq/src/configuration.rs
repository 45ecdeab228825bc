// SPDX-License-Identifier: Apache-2.0
//! The library's configuration: transport, congestion control, packet scheduler, TLS, key log and event log.

use std::fs::File;
use std::io::{LineWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use mprun_exchange::arguments::Arguments;
use mprun_exchange::{MOST_PATHS, PROTOCOL};
use noq_proto::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::{
    ClientConfig, ConnectionId, MtuDiscoveryConfig, QlogConfig, QlogFactory, Scheduler, ServerConfig, Side,
    TransportConfig, VarInt,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{ring, verify_tls12_signature, verify_tls13_signature, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, KeyLog, SignatureScheme};

/// The largest UDP payload in an Ethernet frame, with an IPv4 and an IPv6 header.
const LARGEST_PAYLOADS: [u16; 2] = [1472, 1452];

/// The most that an end buffers for a stream: Linux's limit for TCP (tcp_rmem, tcp(7)). A transfer should wait for its
/// paths, and not for the receiver's window.
const WINDOW: u32 = 6 << 20;

/// The choice of the path for data that this end sends.
#[derive(Clone, PartialEq)]
pub enum Policy {
    /// One path. Multipath is not negotiated.
    Single,
    /// The library chooses among all paths.
    All(Scheduler),
    /// The path between two addresses is available, and all others are backups.
    Prefer(IpAddr, IpAddr),
    /// The client declares some paths backups. The server follows (PATH_STATUS_BACKUP).
    Backup,
}

impl Policy {
    /// Reads `lowest-rtt`, `roundrobin`, `redundant`, `backup`, or `prefer=LOCAL,REMOTE`.
    pub fn parse(arguments: &Arguments) -> Result<Self, String> {
        match arguments.get("scheduler") {
            None => Ok(Policy::Single),
            Some("lowest-rtt") => Ok(Policy::All(Scheduler::LowestRtt)),
            Some("roundrobin") => Ok(Policy::All(Scheduler::RoundRobin)),
            Some("redundant") => Ok(Policy::All(Scheduler::Redundant)),
            Some("backup") => Ok(Policy::Backup),
            Some(text) => {
                let (local, remote) = text.strip_prefix("prefer=").and_then(addresses).ok_or_else(|| {
                    format!(
                        "--scheduler {text}: none of lowest-rtt, roundrobin, redundant, backup, prefer=LOCAL,REMOTE"
                    )
                })?;
                Ok(Policy::Prefer(local, remote))
            }
        }
    }

    fn scheduler(&self) -> Scheduler {
        match self {
            Policy::All(scheduler) => *scheduler,
            _ => Scheduler::LowestRtt,
        }
    }
}

/// Reads `LOCAL,REMOTE`.
pub fn addresses(pair: &str) -> Option<(IpAddr, IpAddr)> {
    let (local, remote) = pair.split_once(',')?;
    Some((local.parse().ok()?, remote.parse().ok()?))
}

/// The configuration of a client.
pub fn client(arguments: &Arguments, policy: &Policy, is_ipv6: bool) -> Result<ClientConfig, String> {
    let case = arguments.get("testcase");
    let mut suites = ring::default_provider();
    if case == Some("chacha20") {
        suites.cipher_suites = vec![ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
    }
    let provider = Arc::new(suites);
    let mut tls = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|e| format!("TLS: {e}"))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    tls.enable_early_data = sends_early(arguments);
    if let Some(name) = arguments.get("keylog") {
        let file = File::create(name).map_err(|e| format!("key log {name}: {e}"))?;
        tls.key_log = Arc::new(Keys(Mutex::new(file)));
    }
    if case == Some("multiconnect") {
        // each connection has a whole handshake
        tls.resumption = rustls::client::Resumption::disabled();
    }
    // Initial packets have this cipher suite, whatever the handshake negotiates (RFC 9001 5.2)
    let initial = ring::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
    let initial = initial.ok_or("TLS: no cipher suite for Initial packets")?;
    let crypto = QuicClientConfig::with_initial(Arc::new(tls), initial).map_err(|e| format!("TLS: {e}"))?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport(arguments, policy, is_ipv6)?));
    Ok(config)
}

/// The configuration of a server.
pub fn server(arguments: &Arguments, policy: &Policy, is_ipv6: bool) -> Result<ServerConfig, String> {
    let (certificate, key) = (arguments.require("certificate")?, arguments.require("key")?);
    let explain = |cause: String| format!("certificate {certificate}, key {key}: {cause}");
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(|items| items.collect::<Result<Vec<_>, _>>())
        .map_err(|e| explain(e.to_string()))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|e| explain(e.to_string()))?;
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|e| format!("TLS: {e}"))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|e| explain(e.to_string()))?;
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    if sends_early(arguments) {
        // the only value that QUIC allows (RFC 9001 4.6.1)
        tls.max_early_data_size = u32::MAX;
    }
    let crypto = QuicServerConfig::try_from(tls).map_err(|e| format!("TLS: {e}"))?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(transport(arguments, policy, is_ipv6)?));
    Ok(config)
}

/// The client sends its first requests in 0-RTT packets.
fn sends_early(arguments: &Arguments) -> bool {
    arguments.get("testcase") == Some("zerortt")
}

/// What both ends share. Datagrams are sent one by one, so that none depends on what the kernel could join.
fn transport(arguments: &Arguments, policy: &Policy, is_ipv6: bool) -> Result<TransportConfig, String> {
    let mut config = TransportConfig::default();
    let idle_ms = arguments.number("idle-timeout-ms", 30_000u32)?;
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(LARGEST_PAYLOADS[usize::from(is_ipv6)]);
    config
        .max_idle_timeout(Some(VarInt::from(idle_ms).into()))
        .congestion_controller_factory(congestion(arguments.get("congestion").unwrap_or("cubic"))?)
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .send_window(u64::from(WINDOW))
        .mtu_discovery_config(Some(discovery))
        .enable_segmentation_offload(false)
        .scheduler(policy.scheduler());
    if *policy != Policy::Single {
        config.max_concurrent_multipath_paths(MOST_PATHS as u32);
    }
    if let Some(name) = arguments.get("qlog") {
        config.qlog_factory(Arc::new(Events(Mutex::new(Some(name.to_string())))));
    }
    Ok(config)
}

fn congestion(name: &str) -> Result<Arc<dyn ControllerFactory + Send + Sync>, String> {
    match name {
        "cubic" => Ok(Arc::new(CubicConfig::default())),
        "reno" => Ok(Arc::new(NewRenoConfig::default())),
        "bbr3" => Ok(Arc::new(Bbr3Config::default())),
        _ => Err(format!("--congestion {name}: none of cubic, reno, bbr3")),
    }
}

/// Writes the secrets of a connection, one a line (NSS key log format).
#[derive(Debug)]
struct Keys(Mutex<File>);

impl KeyLog for Keys {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        if let Ok(mut file) = self.0.lock() {
            let _ = writeln!(file, "{label} {} {}", hex(client_random), hex(secret));
        }
    }
}

/// Writes the events of the first connection to a file (draft-ietf-quic-qlog-main-schema). A signal may end the program,
/// so each event is written at once.
struct Events(Mutex<Option<String>>);

impl QlogFactory for Events {
    fn for_connection(&self, _: Side, _: SocketAddr, _: ConnectionId, _: Instant) -> Option<QlogConfig> {
        let name = self.0.lock().ok()?.take()?;
        match File::create(&name) {
            Ok(file) => {
                let mut config = QlogConfig::new(Box::new(LineWriter::new(file)));
                config.title(Some("mprun-noq".to_string()));
                Some(config)
            }
            Err(error) => {
                eprintln!("mprun-noq: {name}: {error}");
                None
            }
        }
    }
}

/// Accepts any certificate: each run makes its own. Signatures of the handshake are verified.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
