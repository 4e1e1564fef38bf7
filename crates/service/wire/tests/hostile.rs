//! Untrusted bytes cause an error and nothing else.

use proptest::prelude::*;
use unspoken_wire::v1::{ApplicationDescription, KeyDeclaration, KeyList, KeyStatus, Problem};
use unspoken_wire::{
    CheckedDeclaration, MAX_CONTROL_BYTES, Message, ProblemCode, WireError, decode, is_application_name,
};

fn declaration() -> KeyDeclaration {
    KeyDeclaration { application: "classify/spam".into(), key_format: 3, length: 1000, blake3: vec![9; 32] }
}

#[test]
fn a_message_over_the_limit_is_refused_before_it_is_read() {
    let garbage = vec![0xff; 65];
    let error = decode::<KeyDeclaration>(&garbage, 64).unwrap_err();
    assert!(matches!(error, WireError::TooLong { found: 65, limit: 64, .. }), "{error}");
    assert!(error.to_string().contains("KeyDeclaration"), "{error}");
}

#[test]
fn every_truncation_of_a_declaration_is_refused() {
    let whole = declaration().encode_to_vec();
    for cut in 0..whole.len() {
        let checked = decode::<KeyDeclaration>(&whole[..cut], MAX_CONTROL_BYTES).and_then(CheckedDeclaration::try_from);
        assert!(checked.is_err(), "{cut} of {} bytes passed", whole.len());
    }
    let checked = decode::<KeyDeclaration>(&whole, MAX_CONTROL_BYTES).and_then(CheckedDeclaration::try_from).unwrap();
    assert_eq!((checked.length, checked.key_format), (1000, 3));
}

#[test]
fn fields_out_of_shape_are_named() {
    let wrong = [
        (KeyDeclaration { length: 0, ..declaration() }, "length"),
        (KeyDeclaration { blake3: vec![9; 31], ..declaration() }, "blake3"),
        (KeyDeclaration { application: "../keys".into(), ..declaration() }, "application"),
    ];
    for (raw, name) in wrong {
        match CheckedDeclaration::try_from(raw) {
            Err(WireError::Field { field, .. }) => assert_eq!(field, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn names_that_could_leave_their_place_in_a_url_are_refused() {
    for good in ["a", "classify/spam", "lookup/wiki-2024_v1.2"] {
        assert!(is_application_name(good), "{good}");
    }
    for bad in ["", "/", "a/", "/a", "a//b", "..", "a/..", "A", "a b", "a?b", "a%2e", "é"] {
        assert!(!is_application_name(bad), "{bad}");
    }
    assert!(!is_application_name(&"a".repeat(121)));
}

#[test]
fn codes_are_distinct_and_found_by_name() {
    for (i, code) in ProblemCode::ALL.iter().enumerate() {
        assert_eq!(ProblemCode::from_name(code.name()), Some(*code));
        assert!((400..600).contains(&code.status()), "{code}");
        assert!(ProblemCode::ALL[..i].iter().all(|other| other.name() != code.name()));
    }
    assert_eq!(ProblemCode::from_name("no such code"), None);
}

#[test]
fn a_problem_is_readable_as_json() {
    let problem = Problem { code: "too_large".into(), status: 413, ..Problem::default() };
    let json = serde_json::to_value(&problem).unwrap();
    assert_eq!((json["code"].as_str(), json["status"].as_u64()), (Some("too_large"), Some(413)));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let limit = 256;
        let over = bytes.len() > limit;
        let declared = decode::<KeyDeclaration>(&bytes, limit).and_then(CheckedDeclaration::try_from);
        prop_assert!(!(over && declared.is_ok()));
        prop_assert!(!(over && decode::<KeyStatus>(&bytes, limit).is_ok()));
        prop_assert!(!(over && decode::<KeyList>(&bytes, limit).is_ok()));
        prop_assert!(!(over && decode::<Problem>(&bytes, limit).is_ok()));
        prop_assert!(!(over && decode::<ApplicationDescription>(&bytes, limit).is_ok()));
    }

    #[test]
    fn declarations_survive_the_wire(key_format: u32, length in 1u64.., hash: [u8; 32]) {
        let sent = KeyDeclaration { key_format, length, blake3: hash.to_vec(), ..declaration() };
        let read = decode::<KeyDeclaration>(&sent.encode_to_vec(), MAX_CONTROL_BYTES)?;
        let checked = CheckedDeclaration::try_from(read)?;
        prop_assert_eq!((checked.key_format, checked.length, checked.blake3), (key_format, length, hash));
    }
}
