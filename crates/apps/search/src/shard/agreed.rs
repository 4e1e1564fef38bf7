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

    /// They are of one build, and no group is at two of them.
    fn check_next(
        earlier: &[ShardDescription],
        shard: &ShardDescription,
        named: (u32, u32),
    ) -> Result<(), ShardProblem> {
        let Some(first) = earlier.first() else { return Ok(()) };
        let needed = "that of the other shards: serve copies of one directory";
        if shard.index().id() != first.index().id() {
            return Err(ShardProblem::differs(named, "another build of the index", needed));
        }
        if !shard.index().is_same_index(first.index()) {
            return Err(ShardProblem::differs(named, "another description of the same build", needed));
        }
        let range = shard.range();
        let overlaps = |other: &ShardDescription| range.start < other.range().end && other.range().start < range.end;
        if earlier.iter().any(overlaps) {
            let found = format!("groups {} to {}, which another shard has", range.start, range.end);
            return Err(ShardProblem::differs(named, found, "the address of every shard once"));
        }
        Ok(())
    }

    /// Each group is at one of them.
    fn new(shards: Vec<ShardDescription>) -> Result<Self, ShardProblem> {
        let (count, agreed) = (shards.len() as u32, Agreed { shards });
        let (found, needed) = (agreed.in_order(), agreed.index().shape().groups());
        let covered: usize = found.iter().map(|(_, range)| range.len()).sum();
        match covered == needed {
            true => Ok(agreed),
            false => {
                let found = format!("{covered} groups of columns at all shards");
                let needed = format!("{needed}: give the router the address of every shard once");
                Err(ShardProblem::differs((count, count), found, needed))
            }
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
