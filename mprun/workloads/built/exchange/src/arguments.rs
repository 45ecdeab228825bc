// SPDX-License-Identifier: Apache-2.0
//! The command line: `--name value` pairs. A name may be repeated.

use std::str::FromStr;

/// The arguments after the name of the role.
pub struct Arguments {
    pairs: Vec<(String, String)>,
}

impl Arguments {
    /// Reads `--name value` pairs. `known` are the names that the role accepts.
    pub fn parse(words: &[String], known: &[&str]) -> Result<Self, String> {
        let mut pairs = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").filter(|name| known.contains(name));
            let name = name.ok_or_else(|| format!("unknown argument '{word}'; known: --{}", known.join(", --")))?;
            let value = words.next().ok_or_else(|| format!("--{name} needs a value"))?;
            pairs.push((name.to_string(), value.clone()));
        }
        Ok(Self { pairs })
    }

    /// Every value of a name, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.pairs.iter().filter(move |(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The last value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The value of a required name.
    pub fn require(&self, name: &str) -> Result<&str, String> {
        self.get(name).ok_or_else(|| format!("--{name} is missing"))
    }

    /// A value in its type, or a default.
    pub fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("--{name} {text}: not a number")),
        }
    }
}
