// SPDX-License-Identifier: Apache-2.0
//! Requests from standard input: a line with the size of the wanted answer each.

use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::os::fd::{AsRawFd, RawFd};

/// The requests that are read and not yet sent.
#[derive(Default)]
pub struct Input {
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    sizes: VecDeque<u64>,
    has_ended: bool,
}

impl Input {
    pub fn new() -> Self {
        Self::default()
    }

    /// What to wait for before `read`. `None` at the end of the input, which would always be ready.
    pub fn descriptor(&self) -> Option<RawFd> {
        (!self.has_ended).then(|| io::stdin().as_raw_fd())
    }

    /// Takes what is there. Blocks if nothing is there. Error: a line that is not a number.
    pub fn read(&mut self) -> Result<(), String> {
        let mut input = io::stdin().lock();
        let part = input.fill_buf().map_err(|e| format!("standard input: {e}"))?;
        let length = part.len();
        self.has_ended = length == 0;
        self.line.extend_from_slice(part);
        // the buffer is empty after this, so the file descriptor is ready when more arrives
        input.consume(length);
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            let text = String::from_utf8_lossy(&line[..end]).into_owned();
            self.sizes.push_back(text.parse().map_err(|_| format!("standard input: '{text}' is no number of bytes"))?);
        }
        Ok(())
    }

    /// The size of the next answer, if it is known already.
    pub fn take(&mut self) -> Option<u64> {
        self.sizes.pop_front()
    }

    /// Whether no request is left, and no further request can come.
    pub fn is_over(&self) -> bool {
        self.has_ended && self.sizes.is_empty()
    }
}
