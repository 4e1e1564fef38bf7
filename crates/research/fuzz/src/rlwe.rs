//! Targets for ciphertexts, secret keys and key bundles.

use std::sync::LazyLock;

use unspoken_ring::{Basis, Domain};
use unspoken_rlwe::{
    Ciphertext, CompactQuery, CompactQueryParameters, CompactQuerySecret, EvaluationKeys, KeyBundle, KeyKind, KeyPlan,
    KeyStorage, PublicKey, RoundedCiphertext, SecretKey, SeededCiphertext, SeededSmallRingKeys, SeededSwitchingKey,
    SmallRing, SubringQuery, SubringQueryParameters, SubringQuerySecret, galois,
};

use crate::fixtures::{BOOT, BOOT_SECRET, QUERY, SMALL, SMALL_SECRET, SPARSE_PRIMES, rng};
use crate::{Target, repair};

/// `Ciphertext::from_bytes`: encoding gives the same bytes.
pub static CIPHERTEXT: Target = Target {
    name: "rlwe_ciphertext",
    run: |data| {
        let parameters = SMALL.rlwe();
        let Ok(ciphertext) = Ciphertext::from_bytes(parameters, data) else { return false };
        assert!(ciphertext.to_bytes(parameters) == data, "the bytes changed");
        let decrypted = SMALL_SECRET.decrypt(&ciphertext).expect("decrypts");
        assert_eq!(decrypted.domain(), Domain::Coefficient);
        true
    },
    repair: |data| repair::ciphertext(SMALL.rlwe(), data),
    seeds: || {
        let pair = |chain| seeded(chain).expand(SMALL.ring());
        let three = Ciphertext::new([pair(1).components(), &pair(1).components()[..1]].concat()).expect("one basis");
        [pair(1), pair(2), pair(3), three].iter().map(|c| c.to_bytes(SMALL.rlwe())).collect()
    },
};

/// `SeededCiphertext::from_bytes`: encoding gives the same bytes.
pub static SEEDED_CIPHERTEXT: Target = Target {
    name: "rlwe_seeded_ciphertext",
    run: |data| {
        let parameters = SMALL.rlwe();
        let Ok(seeded) = SeededCiphertext::from_bytes(parameters, data) else { return false };
        assert!(seeded.to_bytes(parameters) == data, "the bytes changed");
        assert_eq!(SeededCiphertext::byte_len(parameters, seeded.basis()), data.len());
        // An expanded ciphertext must be as valid as a decoded one.
        let bytes = seeded.expand(SMALL.ring()).to_bytes(parameters);
        assert!(Ciphertext::from_bytes(parameters, &bytes).is_ok(), "the expansion is no ciphertext");
        true
    },
    repair: |data| repair::seeded_ciphertext(SMALL.rlwe(), data),
    seeds: || (1..=3).map(|chain| seeded(chain).to_bytes(SMALL.rlwe())).collect(),
};

fn seeded(chain: usize) -> SeededCiphertext {
    let zero = SMALL.ring().zero(Basis::chain(chain), Domain::Evaluation);
    SeededCiphertext::encrypt(&SMALL_SECRET, &zero, &mut rng()).expect("encrypts")
}

/// The coefficients of sparse and rounded ciphertexts: even ones, in some order.
static PLACES: [usize; 5] = [0, 6, 2, 14, 10];

/// `SeededCiphertext::sparse_from_bytes`: the same bytes again, but for unused bits; its expansion is a ciphertext.
pub static SPARSE_CIPHERTEXT: Target = Target {
    name: "rlwe_sparse_ciphertext",
    run: |data| {
        let parameters = SMALL.rlwe();
        let Ok(sparse) = SeededCiphertext::sparse_from_bytes(parameters, &PLACES, data) else { return false };
        assert_eq!(SeededCiphertext::sparse_byte_len(parameters, sparse.basis(), PLACES.len()), data.len());
        let bytes = sparse.sparse_to_bytes(parameters, &PLACES).expect("the same places");
        let again = SeededCiphertext::sparse_from_bytes(parameters, &PLACES, &bytes).expect("its own bytes");
        assert!(again.to_bytes(parameters) == sparse.to_bytes(parameters), "another ciphertext");
        let bytes = sparse.expand(SMALL.ring()).to_bytes(parameters);
        assert!(Ciphertext::from_bytes(parameters, &bytes).is_ok(), "the expansion is no ciphertext");
        true
    },
    repair: |data| repair::sparse_ciphertext(SMALL.rlwe(), PLACES.len(), data),
    seeds: || (1..=3).map(|chain| seeded(chain).sparse_to_bytes(SMALL.rlwe(), &PLACES).expect("places")).collect(),
};

/// `RoundedCiphertext::from_bytes`: the same object again; decrypts to parts of the modulus.
pub static ROUNDED_CIPHERTEXT: Target = Target {
    name: "rlwe_rounded_ciphertext",
    run: |data| {
        let parameters = SMALL.rlwe();
        let Ok(rounded) = RoundedCiphertext::from_bytes(parameters, PLACES.len(), data) else { return false };
        let bytes = rounded.to_bytes(parameters);
        assert!(bytes.len() == data.len(), "another length");
        assert!(RoundedCiphertext::from_bytes(parameters, PLACES.len(), &bytes).is_ok_and(|again| again == rounded));
        let fractions = SMALL_SECRET.decrypt_rounded(&rounded, &PLACES).expect("decrypts");
        assert!(fractions.len() == PLACES.len() && fractions.iter().all(|part| (-0.5..=0.5).contains(part)));
        true
    },
    repair: |data| repair::rounded_ciphertext(SMALL.rlwe(), PLACES.len(), data),
    seeds: || {
        let mut plan = KeyPlan::new();
        plan.require(KeyKind::HalfRing, 2);
        let keys = EvaluationKeys::generate(&SMALL_SECRET, &plan, &mut rng()).expect("makes a key");
        let ciphertext = seeded(2).expand(SMALL.ring());
        let rounded = |bits| ciphertext.rounded(SMALL.rlwe(), &keys, bits, &PLACES).expect("rounds");
        [8, 24, 40].map(|bits| rounded(bits).to_bytes(SMALL.rlwe())).to_vec()
    },
};

/// `PublicKey::from_bytes`: a decoded key encodes to the same bytes and encrypts.
pub static PUBLIC_KEY: Target = Target {
    name: "rlwe_public_key",
    run: |data| {
        let parameters = SMALL.rlwe();
        let Ok(key) = PublicKey::from_bytes(parameters, data) else { return false };
        assert!(key.to_bytes() == data, "the bytes changed");
        assert!(key.encrypt_zero(Basis::chain(1), &mut rng()).is_ok(), "encrypts");
        true
    },
    repair: |data| repair::public_key(SMALL.rlwe(), data),
    seeds: || vec![PublicKey::generate(&SMALL_SECRET, &mut rng()).expect("makes a key").to_bytes()],
};

/// `SecretKey::from_bytes`: encoding gives the same bytes.
pub static SECRET_KEY: Target = Target {
    name: "rlwe_secret_key",
    run: |data| {
        let Ok(key) = SecretKey::from_bytes(SMALL.rlwe(), data) else { return false };
        assert!(key.to_bytes().expect("the key's own parameters").as_slice() == data, "the bytes changed");
        true
    },
    repair: |data| {
        data.resize(SMALL.ring().degree() / 4, 0);
        // Two bits hold a coefficient plus one, so 3 is invalid.
        data.iter_mut().for_each(|byte| *byte &= !(*byte & *byte << 1 & 0xaa) | 0x55);
    },
    seeds: || vec![SMALL_SECRET.to_bytes().expect("the key's own parameters").to_vec()],
};

/// `KeyBundle::read_plan`: reads only the plan; encoding gives the same bytes.
pub static KEY_PLAN: Target = Target {
    name: "rlwe_key_plan",
    run: |data| {
        let mut rest = data;
        let Ok(plan) = KeyBundle::read_plan(SMALL.rlwe(), &mut rest) else { return false };
        let mut bytes = Vec::new();
        KeyBundle::write_plan(SMALL.rlwe(), &plan, &mut bytes).expect("writes to memory");
        assert_eq!(KeyBundle::plan_bytes(&plan), data.len() - rest.len());
        assert!(data.starts_with(&bytes) && bytes.len() + rest.len() == data.len(), "the bytes changed");
        assert!(KeyBundle::byte_len(SMALL.rlwe(), &plan) >= bytes.len() as u64);
        true
    },
    repair: |data| {
        repair::key_plan(SMALL.rlwe(), data);
    },
    seeds: || plans().iter().map(plan_bytes).collect(),
};

/// `KeyBundle::read`: returns exactly the keys of its plan, in exactly the announced memory.
pub static KEY_BUNDLE: Target = Target {
    name: "rlwe_key_bundle",
    run: |data| {
        let Ok(keys) = KeyBundle::read(SMALL.rlwe(), KeyStorage::Expanded, &mut &data[..]) else { return false };
        let plan = KeyBundle::read_plan(SMALL.rlwe(), &mut &data[..]).expect("the bundle was read");
        assert_eq!(KeyBundle::byte_len(SMALL.rlwe(), &plan), data.len() as u64);
        assert_eq!(plan.memory_bytes(SMALL.ring()), keys.bytes());
        keys.check("fuzz", &plan).expect("every key of the plan");
        true
    },
    repair: |data| repair::key_bundle(SMALL.rlwe(), data),
    seeds: || plans().iter().map(bundle_bytes).collect(),
};

/// `KeyBundle::read` with the keys of a bootstrap: as for [`KEY_BUNDLE`].
pub static BOOT_KEY_BUNDLE: Target = Target {
    name: "rlwe_boot_key_bundle",
    run: |data| {
        let Ok(keys) = KeyBundle::read(BOOT.rlwe(), KeyStorage::Expanded, &mut &data[..]) else { return false };
        let plan = KeyBundle::read_plan(BOOT.rlwe(), &mut &data[..]).expect("the bundle was read");
        assert_eq!(KeyBundle::byte_len(BOOT.rlwe(), &plan), data.len() as u64);
        assert_eq!(plan.memory_bytes(BOOT.ring()), keys.bytes());
        let sparse =
            plan.iter().filter(|(kind, _)| matches!(kind, KeyKind::Encapsulation | KeyKind::QueryEncapsulation));
        assert!(
            sparse.into_iter().all(|(_, chain)| chain == SPARSE_PRIMES),
            "a key under the sparse secret over other primes"
        );
        keys.check("fuzz", &plan).expect("every key of the plan");
        true
    },
    repair: |data| repair::header(BOOT.rlwe(), repair::Kind::KeyBundle, data, repair::BUNDLE_HEAD),
    seeds: || {
        let sparse = [KeyKind::Encapsulation, KeyKind::QueryEncapsulation].map(|kind| (kind, SPARSE_PRIMES));
        let kinds = [sparse[0], sparse[1], (KeyKind::Decapsulation { element: 1 }, BOOT.ring().chain().len())];
        let mut plan = KeyPlan::new();
        kinds.iter().for_each(|&(kind, chain)| plan.require(kind, chain));
        let mut bytes = Vec::new();
        KeyBundle::write_plan(BOOT.rlwe(), &plan, &mut bytes).expect("writes to memory");
        for (kind, chain) in plan.iter() {
            let key = SeededSwitchingKey::generate(&BOOT_SECRET, kind, chain, &mut rng()).expect("a key");
            KeyBundle::write_key(BOOT.rlwe(), &key, &mut bytes).expect("writes to memory");
        }
        vec![bytes]
    },
};

static SMALL_RING: LazyLock<SmallRing> =
    LazyLock::new(|| SmallRing::new(BOOT.rlwe(), BOOT.ring().degree() / 2, 64).expect("made for bootstrapping"));

/// `SeededSmallRingKeys::from_bytes`: encoding gives the same bytes, and the keys expand.
pub static SMALL_RING_KEYS: Target = Target {
    name: "rlwe_small_ring_keys",
    run: |data| {
        let Ok(keys) = SeededSmallRingKeys::from_bytes(&SMALL_RING, data) else { return false };
        assert!(keys.to_bytes(&SMALL_RING) == data, "the bytes changed");
        assert!(keys.expand(&SMALL_RING).is_ok(), "expands");
        true
    },
    repair: |data| {
        repair::header(BOOT.rlwe(), repair::Kind::SmallRingKeys, data, repair::BUNDLE_HEAD);
        data.resize(SeededSmallRingKeys::byte_len(&SMALL_RING), 0);
    },
    seeds: || {
        let keys = SeededSmallRingKeys::generate(&SMALL_RING, &BOOT_SECRET, &mut rng()).expect("makes keys");
        vec![keys.to_bytes(&SMALL_RING)]
    },
};

static QUERIES: LazyLock<CompactQueryParameters> =
    LazyLock::new(|| CompactQueryParameters::new(BOOT.rlwe()).expect("made for bootstrapping"));

/// `CompactQuery::from_bytes`: encoding gives the same bytes, and the expansion is a valid ciphertext.
pub static COMPACT_QUERY: Target = Target {
    name: "rlwe_query",
    run: |data| {
        let Ok(query) = CompactQuery::from_bytes(&QUERIES, data) else { return false };
        assert!(query.to_bytes(&QUERIES) == data, "the bytes changed");
        let expanded = query.expand(&QUERIES, BOOT.ring()).expect("expands").to_bytes(BOOT.rlwe());
        assert!(Ciphertext::from_bytes(BOOT.rlwe(), &expanded).is_ok(), "the expansion is no ciphertext");
        true
    },
    repair: |data| data.resize(QUERIES.byte_len(), 0),
    seeds: || {
        let secret = CompactQuerySecret::of(&BOOT_SECRET, &QUERIES).expect("one degree");
        let elements = vec![0.25; QUERIES.len()];
        vec![secret.encrypt(&elements, &mut rng()).expect("encrypts").to_bytes(&QUERIES)]
    },
};

static SUBRING_QUERIES: LazyLock<SubringQueryParameters> =
    LazyLock::new(|| SubringQueryParameters::new(QUERY.rlwe(), 64).expect("made for bootstrapping"));

/// `SubringQuery::from_bytes`: encoding gives the same bytes.
pub static SUBRING_QUERY: Target = Target {
    name: "rlwe_subring_query",
    run: |data| {
        let Ok(query) = SubringQuery::from_bytes(&SUBRING_QUERIES, data) else { return false };
        assert!(query.to_bytes(&SUBRING_QUERIES).expect("its own parameters") == data, "the bytes changed");
        true
    },
    repair: |data| data.resize(SUBRING_QUERIES.byte_len(), 0),
    seeds: || {
        let secret = SecretKey::generate(QUERY.rlwe(), &mut rng()).expect("a secret");
        let secret = SubringQuerySecret::of(&secret, &SUBRING_QUERIES).expect("one degree");
        let query = secret.encrypt(&[0.25; 64], &mut rng()).expect("encrypts");
        vec![query.to_bytes(&SUBRING_QUERIES).expect("its own parameters")]
    },
};

fn plans() -> [KeyPlan; 4] {
    let rotation = KeyKind::Galois { element: galois::rotation(SMALL.ring(), 1) };
    let conjugation = KeyKind::Galois { element: galois::conjugation(SMALL.ring()) };
    let keys = [(KeyKind::Relinearisation, 3), (rotation, 2), (conjugation, 1)];
    [&keys[..0], &keys[..1], &keys[1..2], &keys[..]].map(|keys| {
        let mut plan = KeyPlan::new();
        keys.iter().for_each(|&(kind, chain)| plan.require(kind, chain));
        plan
    })
}

fn plan_bytes(plan: &KeyPlan) -> Vec<u8> {
    let mut bytes = Vec::new();
    KeyBundle::write_plan(SMALL.rlwe(), plan, &mut bytes).expect("writes to memory");
    bytes
}

fn bundle_bytes(plan: &KeyPlan) -> Vec<u8> {
    let mut bytes = plan_bytes(plan);
    for (kind, chain) in plan.iter() {
        let key = SeededSwitchingKey::generate(&SMALL_SECRET, kind, chain, &mut rng()).expect("a key");
        KeyBundle::write_key(SMALL.rlwe(), &key, &mut bytes).expect("writes to memory");
    }
    bytes
}
