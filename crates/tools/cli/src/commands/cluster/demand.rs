//! Machines, memory, shards and replicas for a demand: arithmetic on measured rates.

use super::rates::{AnswerRates, dense};

/// Share of its cores that a machine uses on average, so that queries seldom wait.
pub const UTILISATION: f64 = 0.7;
/// Share of a machine's memory for tables or models; the rest is for keys, queries and the system.
pub const MEMORY_SHARE: f64 = 0.75;
/// Share of what tables leave for the keys of clients.
const KEY_SHARE: f64 = 0.75;
/// Seconds of an hour.
const HOUR: f64 = 3600.0;

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterMachine {
    pub cores: f64,
    pub memory_bytes: f64,
    /// Bytes a second that its network carries in each direction.
    pub network_bytes: f64,
    /// Seconds for a message to another machine and back.
    pub round_trip: f64,
}

/// Who asks, and how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    pub clients: f64,
    /// Questions of a client in an hour, at the busiest time.
    pub questions_per_hour: f64,
    /// Seconds that an answer may take, without the client's network.
    pub latency: f64,
}

impl Demand {
    /// Questions a second of all clients.
    pub fn rate(&self) -> f64 {
        self.clients * self.questions_per_hour / HOUR
    }

    /// Clients that ask within an hour: their keys are in memory.
    fn active(&self) -> f64 {
        self.clients * self.questions_per_hour.min(1.0)
    }
}

/// What a demand needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    /// Parts of the database; 1 for applications without one.
    pub shards: f64,
    /// Machines for each shard.
    pub replicas: f64,
    /// Bytes of memory of a machine that are used.
    pub machine_memory: f64,
    /// Machines that pass queries on, and add partial answers.
    pub gateways: f64,
    /// Seconds of an answer while nobody waits.
    pub seconds: f64,
    pub core_hours_per_million: f64,
    /// Bytes of all clients' keys on disk.
    pub key_disk: f64,
    /// Bytes a second through all gateways.
    pub traffic: f64,
    /// What determines the number of machines, and what to change.
    pub limit: &'static str,
}

impl Need {
    pub fn machines(&self) -> f64 {
        self.shards * self.replicas + self.gateways
    }
}

/// A database.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Database {
    pub records: f64,
    pub record_bytes: f64,
    pub by_key: bool,
    /// Whether a shard answers queries that wait together in one pass, as `unspoken serve --pir-shard` does, or each
    /// alone, as replicas on Ray do.
    pub together: bool,
}

impl Database {
    /// Bytes of the records in their pieces of 256, with the room that tables by key leave.
    fn bytes(&self) -> f64 {
        let room = if self.by_key { dense::ROOM_BY_KEY } else { 1.0 };
        self.records * (self.record_bytes / 256.0).ceil().max(1.0) * 256.0 * room
    }
}

/// How much faster all cores of a machine read for one query than one core: extrapolated from the second core.
fn speed(machine: &ClusterMachine) -> f64 {
    1.0 + (machine.cores - 1.0) * dense::SECOND_CORE
}

/// Least seconds of an answer, without the database.
pub fn least_latency(machine: &ClusterMachine) -> f64 {
    2.0 * machine.round_trip + dense::CORE_SECONDS_PER_QUERY
}

/// A database of dense tables whose shards each fit a machine and are read fast enough.
pub fn database(database: &Database, demand: &Demand, machine: &ClusterMachine) -> Need {
    let bytes = database.bytes();
    let speed = speed(machine);
    let tables = machine.memory_bytes * MEMORY_SHARE;
    let of_memory = bytes * dense::MEMORY_PER_BYTE / tables;
    let for_shards = (demand.latency - least_latency(machine)).max(1e-3);
    let of_latency = bytes * dense::SECONDS_PER_BYTE / speed / for_shards;
    let shards = of_memory.max(of_latency).ceil().max(1.0);
    let each = bytes / shards;
    let alone = each * dense::SECONDS_PER_BYTE / speed + dense::CORE_SECONDS_PER_QUERY;
    // Seconds of a whole machine for a query.
    let machine_seconds = if database.together {
        (each * dense::CORE_SECONDS_PER_BYTE + dense::CORE_SECONDS_PER_QUERY) / machine.cores
    } else {
        alone
    };
    let of_time = demand.rate() * machine_seconds / UTILISATION;
    // Every shard is asked by every client, so each has the keys of all; its replicas share them.
    let keys = demand.active() * dense::KEY_MEMORY;
    let for_keys = machine.memory_bytes - each * dense::MEMORY_PER_BYTE;
    let of_keys = keys / (for_keys * KEY_SHARE).max(1.0);
    let replicas = of_time.max(of_keys).ceil().max(1.0);
    // The query goes to every shard; a partial answer comes back from each.
    let out = demand.rate() * (shards * dense::QUERY_BYTES + dense::ANSWER_BYTES);
    let back = demand.rate() * (shards * dense::PARTIAL_BYTES + dense::QUERY_BYTES);
    let gateways = (out.max(back) / (machine.network_bytes * UTILISATION)).ceil().max(1.0);
    let limit = if gateways > shards * replicas {
        "the network of the gateways: each query goes to every shard; use fewer, larger shards"
    } else if replicas > 1.0 && of_keys > of_time {
        "memory for the keys of clients that ask in the same hour: more in each machine"
    } else if replicas > 1.0 {
        "computation: every question reads the whole database; more cores, or fewer questions"
    } else if of_latency > of_memory {
        "the time of an answer: allow more, or use more cores in a machine"
    } else {
        "memory for the tables: more in each machine, or shorter records"
    };
    Need {
        shards,
        replicas,
        machine_memory: each * dense::MEMORY_PER_BYTE + keys / replicas,
        gateways,
        seconds: alone + shards * dense::MERGE_SECONDS + 2.0 * machine.round_trip,
        core_hours_per_million: shards * machine_seconds * machine.cores * 1e6 / HOUR,
        key_disk: demand.clients * dense::KEY_BYTES,
        traffic: out + back,
        limit,
    }
}

/// An application whose answers need no database.
pub fn application(rates: &AnswerRates, demand: &Demand, machine: &ClusterMachine) -> Need {
    let of_time = demand.rate() * rates.core_seconds / (machine.cores * UTILISATION);
    let for_keys = machine.memory_bytes * MEMORY_SHARE - rates.model_memory;
    let of_keys = demand.active() * rates.key_memory / for_keys.max(1.0);
    let replicas = of_time.max(of_keys).ceil().max(1.0);
    let traffic = demand.rate() * (rates.query_bytes + rates.answer_bytes);
    let gateways = (traffic / (machine.network_bytes * UTILISATION)).ceil().max(1.0);
    let limit = if for_keys < rates.key_memory {
        "memory: a machine has no room for the model and the keys of one client"
    } else if of_keys > of_time {
        "memory for the keys of clients that ask in the same hour: more in each machine, or keys=seeded"
    } else {
        "computation: more cores, or fewer questions"
    };
    Need {
        shards: 1.0,
        replicas,
        machine_memory: rates.model_memory + demand.active() * rates.key_memory / replicas,
        gateways,
        // Measured on two cores.
        seconds: rates.seconds * 2.0 / machine.cores + machine.round_trip,
        core_hours_per_million: rates.core_seconds * 1e6 / HOUR,
        key_disk: demand.clients * rates.key_bytes,
        traffic,
        limit,
    }
}

#[cfg(test)]
mod tests {
    use super::super::rates::STORIES;
    use super::*;

    const MACHINE: ClusterMachine =
        ClusterMachine { cores: 16.0, memory_bytes: 64e9, network_bytes: 1.25e9, round_trip: 5e-4 };
    const DEMAND: Demand = Demand { clients: 1e3, questions_per_hour: 1.0, latency: 2.0 };

    fn of(records: f64, demand: &Demand, machine: &ClusterMachine) -> Need {
        database(&Database { records, record_bytes: 256.0, by_key: false, together: true }, demand, machine)
    }

    #[test]
    fn one_machine_answers_what_was_measured_on_one() {
        // 8 GiB on two cores: 0.415 s were measured for a query alone, 2.388 core-seconds for eight together.
        let (machine, records) = (ClusterMachine { cores: 2.0, ..MACHINE }, 8.0 * (1u64 << 22) as f64);
        let need = of(records, &DEMAND, &machine);
        assert_eq!((need.shards, need.replicas), (1.0, 1.0));
        assert!((need.seconds - 0.4151).abs() < 0.01, "{need:?}");
        assert!((need.core_hours_per_million * 3600.0 / 1e6 - 2.388 / 8.0).abs() < 0.01, "{need:?}");
        let alone = Database { records, record_bytes: 256.0, by_key: false, together: false };
        let alone = database(&alone, &DEMAND, &machine);
        assert!((alone.core_hours_per_million * 3600.0 / 1e6 - 2.0 * 0.4151).abs() < 0.02, "{alone:?}");
    }

    #[test]
    fn more_of_anything_needs_no_fewer_machines() {
        let machines =
            |records, clients, latency| of(records, &Demand { clients, latency, ..DEMAND }, &MACHINE).machines();
        for (less, more) in [
            ((1e8, 1e3, 2.0), (1e9, 1e3, 2.0)),
            ((1e8, 1e3, 2.0), (1e8, 1e6, 2.0)),
            ((1e8, 1e3, 2.0), (1e8, 1e3, 0.05)),
        ] {
            assert!(machines(less.0, less.1, less.2) < machines(more.0, more.1, more.2), "{less:?} {more:?}");
        }
    }

    #[test]
    fn a_plan_fits_its_machines() {
        for clients in [1.0, 1e4, 1e6] {
            for records in [1e6, 1e8, 1e9] {
                let demand = Demand { clients, ..DEMAND };
                let need = of(records, &demand, &MACHINE);
                assert!(need.machine_memory <= MACHINE.memory_bytes, "{clients} {records} {need:?}");
            }
        }
    }

    #[test]
    fn the_limit_is_named() {
        let limit = |records, demand: Demand| of(records, &demand, &MACHINE).limit;
        assert!(limit(1e9, Demand { clients: 1.0, latency: 60.0, ..DEMAND }).starts_with("memory for the tables"));
        assert!(limit(1e8, Demand { clients: 1.0, latency: 0.05, ..DEMAND }).starts_with("the time"));
        let busy = Demand { questions_per_hour: 1e4, ..DEMAND };
        assert!(limit(1e8, busy).starts_with("computation"));
        assert!(limit(1e6, Demand { clients: 1e6, ..DEMAND }).starts_with("memory for the keys"));
        let small = ClusterMachine { memory_bytes: 4e9, ..MACHINE };
        assert!(application(&STORIES, &DEMAND, &small).limit.starts_with("memory: a machine"));
        assert!(application(&STORIES, &DEMAND, &MACHINE).limit.contains("same hour"));
        assert!(application(&STORIES, &busy, &MACHINE).limit.starts_with("computation"));
    }
}
