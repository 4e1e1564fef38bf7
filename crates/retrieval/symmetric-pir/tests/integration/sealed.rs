//! Sealed records: what opens them, what does not, and what is refused.

use unspoken_symmetric_pir::{
    Blinded, MAX_ELEMENTS, MAX_RECORD_BYTES, Name, OVERHEAD_BYTES, RecordKey, Sealing, ServiceKey, SymmetricPirError,
    request_bytes, response_bytes,
};

const RECORD_BYTES: u32 = 40;

fn service() -> ServiceKey {
    ServiceKey::generate(RECORD_BYTES).unwrap()
}

/// Asks a service for the keys of names, as a client does.
fn ask(service: &ServiceKey, names: &[Name<'_>]) -> Result<Vec<RecordKey>, SymmetricPirError> {
    let sealing = service.sealing();
    let blinded: Vec<Blinded> = names.iter().map(|&name| Blinded::new(sealing, name).unwrap()).collect();
    let response = service.evaluate(&Blinded::request(&blinded), MAX_ELEMENTS)?;
    Blinded::finalize(sealing, &blinded, &response)
}

fn message(error: SymmetricPirError) -> String {
    error.to_string()
}

#[test]
fn a_client_opens_what_it_asked_for_and_nothing_else() {
    let service = service();
    let sealing = service.sealing();
    let names = [Name::Key(b"A00"), Name::Key(b""), Name::Index(7), Name::Key(&7u64.to_le_bytes())];
    let records: [&[u8]; 4] = [b"Cholera", b"", &[0; RECORD_BYTES as usize], b"seven"];
    let seal = |(&name, record): (&Name<'_>, &&[u8])| service.record_key(name).unwrap().seal(sealing, record).unwrap();
    let sealed: Vec<Vec<u8>> = names.iter().zip(&records).map(seal).collect();
    let keys = ask(&service, &names).unwrap();
    for (i, key) in keys.iter().enumerate() {
        for (j, (sealed, record)) in sealed.iter().zip(records).enumerate() {
            match key.open(sealing, sealed) {
                Ok(opened) => assert!(i == j && *opened == record),
                Err(error) => {
                    assert!(i != j && matches!(error, SymmetricPirError::Unopened));
                    assert!(message(error).starts_with("this record cannot be opened with this key"));
                }
            }
        }
        assert_eq!(key.label(), service.record_key(names[i]).unwrap().label());
        assert!(keys[..i].iter().all(|other| other.label() != key.label()));
    }
}

#[test]
fn the_length_of_a_record_is_not_visible() {
    let service = service();
    let key = service.record_key(Name::Index(0)).unwrap();
    for length in [0, 1, RECORD_BYTES as usize] {
        let sealed = key.seal(service.sealing(), &vec![3; length]).unwrap();
        assert_eq!(sealed.len(), OVERHEAD_BYTES + RECORD_BYTES as usize);
    }
    let error = message(key.seal(service.sealing(), &[3; RECORD_BYTES as usize + 1]).unwrap_err());
    assert!(error.starts_with("a record of 41 bytes does not fit: all records are padded to 40 bytes"), "{error}");
}

#[test]
fn a_record_is_sealed_again_with_another_nonce() {
    let service = service();
    let key = service.record_key(Name::Key(b"A00")).unwrap();
    let contents: [&[u8]; 3] = [b"Cholera", b"Cholera", b"Typhoid"];
    let sealed = contents.map(|content| key.seal(service.sealing(), content).unwrap());
    let [client] = &ask(&service, &[Name::Key(b"A00")]).unwrap()[..] else { panic!("one key") };
    for (i, (sealed_once, content)) in sealed.iter().zip(contents).enumerate() {
        assert_eq!(*client.open(service.sealing(), sealed_once).unwrap(), content);
        // The ciphertexts of equal contents have no byte string in common that a stream used twice would give.
        assert!(sealed[..i].iter().all(|other| other[..24] != sealed_once[..24] && other[24..] != sealed_once[24..]));
    }
}

#[test]
fn every_changed_bit_of_a_record_is_noticed() {
    let service = service();
    let key = service.record_key(Name::Key(b"A00")).unwrap();
    let sealed = key.seal(service.sealing(), b"Cholera").unwrap();
    for bit in 0..8 * sealed.len() {
        let mut changed = sealed.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(key.open(service.sealing(), &changed), Err(SymmetricPirError::Unopened)), "bit {bit}");
    }
    for other in [&sealed[1..], &[&sealed[..], &[0]].concat(), &[]] {
        assert!(message(key.open(service.sealing(), other).unwrap_err()).contains("needed 84 bytes"));
    }
}

#[test]
fn databases_are_apart_even_with_one_secret() {
    let service = service();
    let stored = service.to_bytes();
    let key = service.record_key(Name::Key(b"A00")).unwrap();
    let sealed = key.seal(service.sealing(), b"Cholera").unwrap();
    // The same public key and label, another id or another padded length.
    let (id, public) = (service.sealing().id(), service.sealing().public_key());
    let other = Sealing::new([9; 16], &public, RECORD_BYTES).unwrap();
    assert!(matches!(key.open(&other, &sealed), Err(SymmetricPirError::Unopened)));
    let blinded = [Blinded::new(&other, Name::Key(b"A00")).unwrap()];
    let response = service.evaluate(&Blinded::request(&blinded), 1).unwrap();
    let [of_other] = &Blinded::finalize(&other, &blinded, &response).unwrap()[..] else { panic!("one key") };
    assert_ne!(of_other.label(), key.label());
    assert!(matches!(of_other.open(service.sealing(), &sealed), Err(SymmetricPirError::Unopened)));
    let same = Sealing::new(id, &public, RECORD_BYTES).unwrap();
    assert_eq!(same, *ServiceKey::from_bytes(&stored).unwrap().sealing());
    assert_eq!(*key.open(&same, &sealed).unwrap(), *b"Cholera");
}

#[test]
fn a_service_with_another_secret_is_found_out() {
    let (honest, other) = (service(), service());
    let sealing = honest.sealing();
    let blinded = [Name::Index(1), Name::Index(2)].map(|name| Blinded::new(sealing, name).unwrap());
    let request = Blinded::request(&blinded);
    let finalize = |response: &[u8]| Blinded::finalize(sealing, &blinded, response).map(drop);
    let sound = honest.evaluate(&request, 2).unwrap();
    finalize(&sound).unwrap();
    let error = finalize(&other.evaluate(&request, 2).unwrap()).unwrap_err();
    assert!(matches!(error, SymmetricPirError::Proof) && message(error).contains("do not trust this service"));
    // One element of another secret, elements in another order, another request.
    let spliced = [&other.evaluate(&request, 2).unwrap()[..32], &sound[32..]].concat();
    let swapped = [&sound[32..64], &sound[..32], &sound[64..]].concat();
    let again = [Name::Index(1), Name::Index(2)].map(|name| Blinded::new(sealing, name).unwrap());
    let of_again = honest.evaluate(&Blinded::request(&again), 2).unwrap();
    for response in [spliced, swapped, of_again] {
        assert!(matches!(finalize(&response), Err(SymmetricPirError::Proof)));
    }
}

#[test]
fn every_changed_bit_of_an_answer_is_noticed() {
    let service = service();
    let blinded = [Blinded::new(service.sealing(), Name::Index(3)).unwrap()];
    let response = service.evaluate(&Blinded::request(&blinded), 1).unwrap();
    assert_eq!(response.len(), response_bytes(1));
    for bit in 0..8 * response.len() {
        let mut changed = response.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(Blinded::finalize(service.sealing(), &blinded, &changed).is_err(), "bit {bit}");
    }
    for other in [&response[32..], &[&response[..], &[0; 32]].concat(), &[]] {
        let error = message(Blinded::finalize(service.sealing(), &blinded, other).unwrap_err());
        assert!(error.ends_with("needed 96 bytes for 1 names"), "{error}");
    }
}

#[test]
fn requests_of_hostile_bytes_are_refused() {
    let service = service();
    let element = |index| Blinded::request(&[Blinded::new(service.sealing(), Name::Index(index)).unwrap()]);
    let (one, two) = (element(1), element(2));
    assert_eq!(one.len(), request_bytes(1));
    // 2^255 - 19 and what is above it encode nothing; 2^255 - 20 would be negative.
    let not_canonical = [&[0xed][..], &[0xff; 30], &[0x7f]].concat();
    let negative = [&[0xec][..], &[0xff; 30], &[0x7f]].concat();
    let high_bit = [&one[..31], &[one[31] | 0x80]].concat();
    for (bytes, part) in [
        (vec![], "found 0 bytes, needed 1 to 2 elements"),
        (one[1..].to_vec(), "found 31 bytes"),
        ([&one[..], &[0]].concat(), "found 33 bytes"),
        ([&one[..], &two, &element(3)].concat(), "found 96 bytes"),
        ([&one[..], &one].concat(), "found an element twice"),
        (vec![0; 32], "no element, or the identity"),
        ([&one[..], &[0; 32]].concat(), "no element, or the identity"),
        (not_canonical, "canonical encoding"),
        (negative, "canonical encoding"),
        (high_bit, "canonical encoding"),
        (vec![0xff; 32], "canonical encoding"),
    ] {
        let error = message(service.evaluate(&bytes, 2).unwrap_err());
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(service.evaluate(&[one, two].concat(), 2).unwrap().len(), response_bytes(2));
}

#[test]
fn a_name_is_blinded_anew_each_time() {
    let service = service();
    let blind = || Blinded::request(&[Blinded::new(service.sealing(), Name::Key(b"A00")).unwrap()]);
    let (first, second) = (blind(), blind());
    assert_ne!(first, second);
    // Both may be in one request, and the service evaluates one element as often as it is asked to.
    let both = [&first[..], &second].concat();
    let evaluated = |request: &[u8]| service.evaluate(request, 2).unwrap()[..request.len()].to_vec();
    assert_eq!(evaluated(&both), evaluated(&both));
    assert_eq!(evaluated(&both)[..32], evaluated(&first));
}

#[test]
fn descriptions_of_hostile_bytes_are_refused() {
    let public = service().sealing().public_key();
    for (key, record_bytes, part) in [
        (&public[..], 0, "bytes of padded records: found 0, needed 1 to"),
        (&public, MAX_RECORD_BYTES + 1, "split longer records"),
        (&[0; 32], 1, "public key of a sealed database: found"),
        (&[0xff; 32], 1, "public key of a sealed database: found"),
        (&public[1..], 1, "public key of a sealed database: found"),
        (&[], 1, "public key of a sealed database: found"),
    ] {
        let error = message(Sealing::new([0; 16], key, record_bytes).unwrap_err());
        assert!(error.contains(part), "{error}");
    }
    Sealing::new([0; 16], &public, MAX_RECORD_BYTES).unwrap();
}

#[test]
fn a_stored_key_is_the_same_key_or_none() {
    let service = service();
    let stored = service.to_bytes();
    let read = ServiceKey::from_bytes(&stored).unwrap();
    assert_eq!(read.to_bytes(), stored);
    assert_eq!(read.sealing(), service.sealing());
    for bit in 0..8 * stored.len() {
        let mut changed = stored.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(ServiceKey::from_bytes(&changed).is_err(), "bit {bit}");
    }
    for length in 0..stored.len() {
        let error = message(ServiceKey::from_bytes(&stored[..length]).unwrap_err());
        assert!(error.contains("restore the file, or rebuild the database"), "{error}");
    }
    assert!(ServiceKey::from_bytes(&[&stored[..], &[0]].concat()).is_err());
}

#[test]
fn secrets_are_not_printed() {
    let service = service();
    let key = service.record_key(Name::Key(b"A00")).unwrap();
    let blinded = Blinded::new(service.sealing(), Name::Key(b"A00")).unwrap();
    assert_eq!(format!("{key:?} {blinded:?}"), "RecordKey { .. } Blinded { .. }");
    let sealing = format!("{:?}", service.sealing());
    assert_eq!(format!("{service:?}"), format!("ServiceKey {{ sealing: {sealing}, .. }}"));
}
