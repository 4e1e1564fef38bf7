//! What the shards of a database agree on: the version from which they are cut.

use unspoken_protocol::{Agreement, ApplicationDescription, ShardProblem};

use crate::description::Description;
use crate::shard::description::ShardDescription;

/// All shards of a database.
pub type Shards<A> = unspoken_protocol::Shards<A, Agreed>;

/// What all shards of a database have agreed on.
#[derive(Debug)]
pub struct Agreed {
    /// In the order of the addresses.
    pub(crate) shards: Vec<ShardDescription>,
}

impl Agreed {
    /// The description of the whole database.
    pub fn database(&self) -> &Description {
        self.shards[0].database()
    }

    /// Version of the database.
    pub fn version(&self) -> u64 {
        self.shards[0].version()
    }
}

impl Agreement for Agreed {
    type Shard = ShardDescription;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<ShardDescription, String> {
        ShardDescription::read(bytes, accept_insecure).map_err(|error| error.to_string())
    }

    /// They are all shards of one split.
    fn check_next(
        earlier: &[ShardDescription],
        shard: &ShardDescription,
        named: (u32, u32),
    ) -> Result<(), ShardProblem> {
        let (id, first, count) = (shard.id(), earlier.first().unwrap_or(shard), named.1);
        if id.shards != count {
            let needed = format!("one of {count}: give the router the address of every shard once");
            return Err(ShardProblem::differs(named, format!("one of {} shards", id.shards), needed));
        }
        if (id.split, shard.version(), shard.database().layout_id())
            != (first.id().split, first.version(), first.database().layout_id())
        {
            let found = format!("version {} of the database, cut at another time", shard.version());
            let needed =
                format!("version {} as at shard {}: serve shards of one split", first.version(), first.id().number);
            return Err(ShardProblem::differs(named, found, needed));
        }
        if earlier.iter().any(|other| other.id().number == id.number) {
            let found = format!("shard {} at two addresses", id.number);
            return Err(ShardProblem::differs(named, found, "the address of every shard once"));
        }
        Ok(())
    }

    /// As many shards of one split as it has are all of them.
    fn new(shards: Vec<ShardDescription>) -> Result<Self, ShardProblem> {
        Ok(Agreed { shards })
    }

    fn numbers(&self) -> Vec<u32> {
        self.shards.iter().map(|shard| shard.id().number).collect()
    }

    /// Version numbers do not fall.
    fn check_successor(&self, now: &Agreed) -> Result<(), ShardProblem> {
        let named = (now.shards[0].id().number, now.shards.len() as u32);
        let needed = "shards of a later version of the same database, or a restart of the router";
        if now.database().parameters().fingerprint() != self.database().parameters().fingerprint() {
            return Err(ShardProblem::differs(named, "other parameters", needed));
        }
        if now.version() < self.version() {
            let found = format!("version {}, earlier than {}", now.version(), self.version());
            return Err(ShardProblem::differs(named, found, needed));
        }
        Ok(())
    }

    fn is_same(&self, other: &Agreed) -> bool {
        self.shards.iter().map(ShardDescription::id).eq(other.shards.iter().map(ShardDescription::id))
    }
}
