//! What the shards of an index agree on: its build, and who has which groups.

use std::ops::Range;

use unspoken_protocol::{Agreement, ApplicationDescription, ShardProblem};

use crate::description::Description;
use crate::shard::description::ShardDescription;

/// All shards of an index.
pub type Shards<A> = unspoken_protocol::Shards<A, Agreed>;

/// What all shards of an index have agreed on.
#[derive(Debug)]
pub struct Agreed {
    /// In the order of the addresses.
    shards: Vec<ShardDescription>,
}

impl Agreed {
    /// The description of the whole index.
    pub fn index(&self) -> &Description {
        self.shards[0].index()
    }

    /// The addresses, by number from 0, and their groups, in the order of the groups.
    pub(crate) fn in_order(&self) -> Vec<(usize, Range<usize>)> {
        let mut order: Vec<_> = self.shards.iter().map(ShardDescription::range).enumerate().collect();
        order.sort_by_key(|(_, range)| range.start);
        order
    }
}

impl Agreement for Agreed {
    type Shard = ShardDescription;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<ShardDescription, String> {
        ShardDescription::read(bytes, accept_insecure).map_err(|error| error.to_string())
    }

    /// They are of one build, and each of its groups is at one of them.
    fn new(shards: Vec<ShardDescription>, numbers: &[u32]) -> Result<Self, ShardProblem> {
        let named = |position: usize| (numbers[position], shards.len() as u32);
        if let Some(other) = shards.iter().position(|shard| !shard.index().is_same_index(shards[0].index())) {
            let needed = "that of the other shards: serve copies of one directory";
            return Err(ShardProblem::differs(named(other), "another build of the index", needed));
        }
        let agreed = Agreed { shards: shards.clone() };
        let (order, all) = (agreed.in_order(), agreed.index().shape().groups());
        let mut next = 0;
        for (position, range) in &order {
            if range.start != next {
                let found = format!("groups {} to {}", range.start, range.end);
                let needed = format!("groups from {next}: give the router the address of every shard once");
                return Err(ShardProblem::differs(named(*position), found, needed));
            }
            next = range.end;
        }
        match (order.last(), next == all) {
            (Some((last, _)), false) => {
                let needed = format!("all {all}: give the router the address of every shard once");
                Err(ShardProblem::differs(named(*last), format!("groups up to {next}"), needed))
            }
            _ => Ok(agreed),
        }
    }

    fn numbers(&self) -> Vec<u32> {
        (1..=self.shards.len() as u32).collect()
    }

    /// Clients need no keys, so any index may follow.
    fn check_successor(&self, _now: &Agreed) -> Result<(), ShardProblem> {
        Ok(())
    }

    fn is_same(&self, other: &Agreed) -> bool {
        let bytes = |agreed: &Agreed| agreed.shards.iter().map(ShardDescription::to_bytes).collect::<Vec<_>>();
        bytes(self) == bytes(other)
    }
}
