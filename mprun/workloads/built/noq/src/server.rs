// SPDX-License-Identifier: Apache-2.0
//! The server: answers each request with the requested number of bytes, until a signal ends it.

use std::collections::BTreeSet;

use mprun_exchange::answers::{self, Answers};
use mprun_exchange::arguments::Arguments;
use mprun_exchange::report::{self, Event as Line};
use mprun_exchange::{Connection as _, SHARED};
use noq_proto::{Dir, Event, StreamEvent};

use crate::configuration::{self, Policy};
use crate::link::Link;
use crate::stack::Stack;

/// Runs for ever. An error gives the reason why the server could not start.
pub fn serve(words: &[String]) -> Result<(), String> {
    let arguments = Arguments::parse(words, &[&answers::KNOWN[..], &SHARED[..]].concat())?;
    let policy = Policy::parse(&arguments)?;
    let network = answers::bind(&arguments)?;
    network.forbid_fragments()?;
    let is_ipv6 = network.addresses().iter().any(|address| address.is_ipv6());
    let config = configuration::server(&arguments, &policy, is_ipv6)?;
    answers::report_listening(&network);
    let mut stack = Stack::new(network, policy, Some(config));
    stack.retries = arguments.get("testcase") == Some("retry");
    let mut answers = Answers::default();
    let mut ended = BTreeSet::new();
    loop {
        let timer = stack.timer();
        stack.network.wait(timer, None);
        stack.receive();
        stack.expire();
        for (handle, link) in &mut stack.links {
            if take_events(link, &mut answers, handle.0 as u64) && ended.insert(*handle) {
                report::print(&Line::Closed { paths: link.paths() });
            }
        }
        stack.send();
        stack.sweep();
        ended.retain(|handle| stack.links.contains_key(handle));
    }
}

/// Handles what has happened on a connection. Returns true if it has ended.
fn take_events(link: &mut Link, answers: &mut Answers, number: u64) -> bool {
    let mut has_ended = false;
    while let Some(event) = link.poll() {
        match event {
            Event::Connected => link.set_statuses(),
            Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                while let Some(id) = link.connection.streams().accept(Dir::Bi) {
                    answers.open(number, id.into());
                    answers.read(link, number, id.into());
                }
            }
            Event::Stream(StreamEvent::Readable { id }) => answers.read(link, number, id.into()),
            Event::Stream(StreamEvent::Writable { id }) => answers.write(link, number, id.into()),
            Event::Stream(StreamEvent::Finished { id } | StreamEvent::Stopped { id, .. }) => {
                answers.close(number, id.into());
            }
            Event::ConnectionLost { .. } => {
                answers.close_all(number);
                has_ended = true;
            }
            _ => {}
        }
    }
    has_ended
}
