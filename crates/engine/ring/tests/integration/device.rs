//! A ring on a device: work that is repeated, memory that is short, and a device that fails.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use unspoken_device_shim::{device, failing_device};
use unspoken_ring::modular::primes_descending;
use unspoken_ring::{
    Backend, Basis, Device, DeviceError, Domain, Poly, Recording, Ring, RingError, RingKind, RingLiteral, Seed,
};

const DEGREE: usize = 1024;

fn host() -> Ring {
    let chain = primes_descending(1 << 29, 1 << 30, 2 * DEGREE as u32).take(3).collect();
    let kind = RingKind::Standard;
    let literal = RingLiteral { degree: DEGREE, kind, chain, terminal: vec![], special: vec![], digit_len: 1 };
    Ring::new(literal, Backend::Portable).unwrap()
}

/// A polynomial in the memory of this process.
fn uniform(ring: &Ring, number: u32) -> Poly {
    ring.uniform(&Seed([3; 32]), number, Basis::chain(3))
}

fn bytes(ring: &Ring, poly: &Poly) -> Vec<u8> {
    let (mut poly, mut bytes) = (poly.clone(), Vec::new());
    ring.fetch(&mut poly).unwrap();
    ring.write_residues(&poly, &mut bytes);
    bytes
}

/// Products, sums, transforms and changes in place, with a constant that is in the memory of this process.
fn work(ring: &Ring, constant: &Poly, inputs: &[&Poly]) -> Result<Vec<Poly>, RingError> {
    let mut sum = ring.mul(inputs[0], constant)?;
    ring.add_assign(&mut sum, inputs[1])?;
    let image = ring.automorphism(&sum, 5)?;
    let mut coefficients = sum.clone();
    ring.to_coefficients(&mut coefficients)?;
    ring.neg_assign(&mut sum)?;
    // A copy of the constant that is changed must not change it, nor the next repetition.
    let mut changed = constant.clone();
    ring.add_assign(&mut changed, &sum)?;
    ring.add_assign(&mut sum, &changed)?;
    Ok(vec![ring.product_sums(&[[&sum, &image]], &[&[(0, constant)]])?.remove(0)[1].clone(), sum, coefficients])
}

#[test]
fn repeated_work_is_recorded_and_has_the_same_bits() {
    let (host, device) = (host(), device(64 << 20));
    let there = host.on_device(&device).unwrap();
    let constants = [&host, &there].map(|ring| uniform(ring, 0));
    let (recording, calls) = (Recording::default(), AtomicUsize::new(0));
    let repeat = |inputs: &[&Poly]| {
        there.repeat(&recording, inputs, |inputs| {
            calls.fetch_add(1, Ordering::Relaxed);
            work(&there, &constants[1], inputs)
        })
    };
    let same = |number: u32| {
        let [wanted, found] = [&host, &there].map(|ring| [uniform(ring, number), uniform(ring, number + 1)]);
        let wanted = work(&host, &constants[0], &wanted.each_ref()).unwrap();
        let found = repeat(&found.each_ref()).unwrap();
        let bytes = |ring: &Ring, polys: &[Poly]| polys.iter().map(|poly| bytes(ring, poly)).collect::<Vec<_>>();
        assert!(bytes(&host, &wanted) == bytes(&there, &found), "number {number}");
        let shape = |polys: &[Poly]| polys.iter().map(|poly| (poly.basis(), poly.domain())).collect::<Vec<_>>();
        assert_eq!(shape(&wanted), shape(&found));
        found
    };
    // Results that are held are not changed by repetitions.
    let held: Vec<Vec<Poly>> = (1..=5).map(same).collect();
    assert_eq!(calls.load(Ordering::Relaxed), 2, "once as it is, once recorded");
    for (number, held) in held.iter().enumerate() {
        let inputs = [number as u32 + 1, number as u32 + 2].map(|number| uniform(&host, number));
        let wanted = work(&host, &constants[0], &inputs.each_ref()).unwrap();
        assert!(bytes(&host, &wanted[1]) == bytes(&there, &held[1]), "number {number}");
    }
    // Launches of a graph count as launches of its kernels.
    let launches = || device.launches().map(|launches| launches.launches).iter().sum::<u64>();
    let (before, _) = (launches(), same(6));
    assert!(launches() > before);
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    // Other shapes are computed, and not recorded.
    let short = [1, 2].map(|number| there.restricted(&uniform(&there, number), Basis::chain(2)).unwrap());
    let constant = there.restricted(&constants[1], Basis::chain(2)).unwrap();
    for _ in 0..3 {
        there.repeat(&recording, &short.each_ref(), |inputs| work(&there, &constant, inputs)).unwrap();
    }
    same(7);
    // A ring that is not on a device does it every time.
    for _ in 0..3 {
        let inputs = [uniform(&host, 1), uniform(&host, 2)];
        host.repeat(&Recording::default(), &inputs.each_ref(), |inputs| {
            calls.fetch_add(1, Ordering::Relaxed);
            work(&host, &constants[0], inputs)
        })
        .unwrap();
    }
    assert_eq!(calls.load(Ordering::Relaxed), 5);
}

#[test]
fn work_that_reads_its_results_is_done_every_time() {
    let device = device(64 << 20);
    let ring = host().on_device(&device).unwrap();
    let (recording, calls) = (Recording::default(), AtomicUsize::new(0));
    for number in 0..4 {
        let input = uniform(&ring, number);
        let outputs = ring.repeat(&recording, &[&input], |inputs| {
            calls.fetch_add(1, Ordering::Relaxed);
            let mut sum = ring.add(inputs[0], inputs[0])?;
            ring.fetch(&mut sum)?;
            Ok::<_, RingError>(vec![sum])
        });
        let wanted = ring.add(&input, &input).unwrap();
        assert!(bytes(&ring, &wanted) == bytes(&ring, &outputs.unwrap()[0]));
    }
    assert_eq!(calls.load(Ordering::Relaxed), 5, "four times, and once in vain");
}

#[test]
fn copies_that_were_not_used_for_longest_give_way() {
    // With the words between limbs.
    let poly_bytes = host().poly_bytes(Basis::chain(3));
    // Room for some polynomials beside the tables.
    let tables = {
        let device = device(64 << 20);
        let _ring = host().on_device(&device).unwrap();
        device.taken_bytes().0
    };
    let device = device(64 << 20);
    let ring = host().on_device(&device).unwrap();
    device.limit_memory(tables + 24 * poly_bytes);
    let keys: Vec<Poly> = (0..40).map(|number| uniform(&ring, number)).collect();
    let wanted: Vec<Vec<u8>> = {
        let host = host();
        let sum = |number: u32| host.add(&uniform(&host, number), &uniform(&host, (number + 7) % 40)).unwrap();
        (0..40).map(|number| bytes(&host, &sum(number))).collect()
    };
    // Many threads take each other's copies away.
    std::thread::scope(|scope| {
        for first in 0..4 {
            let (ring, keys, wanted) = (&ring, &keys, &wanted);
            scope.spawn(move || {
                for number in (0..120).map(|step| (first * 11 + step * 3) % 40) {
                    let sum = ring.add(&keys[number], &keys[(number + 7) % 40]).unwrap();
                    assert!(bytes(ring, &sum) == wanted[number], "number {number}");
                }
            });
        }
    });
    let [copied, _] = device.copied_bytes();
    assert!(copied > 2 * 40 * poly_bytes as u64, "copied again: {copied}");
    let (used, waiting) = device.taken_bytes();
    assert!(used + waiting <= tables + 24 * poly_bytes, "{used} and {waiting}");
    // What the device alone has does not give way.
    let results: Vec<Result<Poly, RingError>> = (0..26).map(|_| ring.add(&keys[0], &keys[0])).collect();
    let refused =
        results.iter().position(|result| matches!(result, Err(RingError::Device(DeviceError::Memory { .. }))));
    assert!(refused.is_some_and(|refused| refused >= 20), "{refused:?}");
}

#[test]
fn recordings_give_way_and_are_made_again() {
    let device = device(64 << 20);
    let ring = host().on_device(&device).unwrap();
    let (recording, constant) = (Recording::default(), uniform(&ring, 0));
    let inputs = [uniform(&ring, 1), uniform(&ring, 2)];
    let repeat = || {
        let outputs = ring.repeat(&recording, &inputs.each_ref(), |inputs| work(&ring, &constant, inputs)).unwrap();
        outputs.iter().map(|poly| bytes(&ring, poly)).collect::<Vec<_>>()
    };
    let wanted = repeat();
    assert!(wanted == repeat() && wanted == repeat());
    assert_eq!(device.recorded(), 1);
    let (used, waiting) = device.taken_bytes();
    device.limit_memory(used + waiting);
    // The copies and the scratch of the recording go for these.
    let held: Vec<Poly> = std::iter::from_fn(|| ring.add(&inputs[0], &inputs[1]).ok()).collect();
    assert_eq!(device.recorded(), 0, "{} polynomials are held", held.len());
    drop(held);
    assert!((0..4).all(|_| wanted == repeat()));
    assert_eq!(device.recorded(), 1);
}

#[test]
fn copies_give_way_while_work_is_recorded() {
    let device = device(64 << 20);
    let ring = host().on_device(&device).unwrap();
    let (recording, constant) = (Recording::default(), uniform(&ring, 0));
    let poly_bytes = ring.poly_bytes(Basis::chain(3));
    // Room for the work as it is.
    let (before, _) = device.taken_bytes();
    device.limit_memory(before + 30 * poly_bytes);
    let repeat = || {
        let inputs = [uniform(&ring, 1), uniform(&ring, 2)];
        let outputs = ring.repeat(&recording, &inputs.each_ref(), |inputs| work(&ring, &constant, inputs)).unwrap();
        outputs.iter().map(|poly| bytes(&ring, poly)).collect::<Vec<_>>()
    };
    let wanted = repeat();
    // Copies that nobody uses fill the memory.
    let others: Vec<Poly> = (10..50).map(|number| uniform(&ring, number)).collect();
    others.iter().for_each(|other| drop(ring.add(other, other).unwrap()));
    for _ in 0..3 {
        assert!(wanted == repeat());
    }
    assert_eq!(device.recorded(), 1);
    // The copies that were used last are still there.
    let copied = device.copied_bytes()[0];
    drop(ring.add(&others[39], &others[39]).unwrap());
    assert_eq!(device.copied_bytes()[0], copied);
}

#[test]
fn inputs_that_are_new_each_time_leave_no_copies() {
    let device = device(64 << 20);
    let ring = host().on_device(&device).unwrap();
    let (recording, constant) = (Recording::default(), uniform(&ring, 0));
    let repeat = |number: u32| {
        let inputs = [uniform(&ring, number), uniform(&ring, number + 1)];
        ring.repeat(&recording, &inputs.each_ref(), |inputs| work(&ring, &constant, inputs)).unwrap();
        device.taken_bytes().0
    };
    let used: Vec<usize> = (0..20).map(repeat).collect();
    assert_eq!(used[19], used[5], "{used:?}");
}

#[test]
fn many_threads_record_and_repeat_work() {
    let (host, device) = (host(), device(256 << 20));
    let ring = host.on_device(&device).unwrap();
    let constants = [&host, &ring].map(|ring| uniform(ring, 0));
    let wanted: Vec<Vec<u8>> = (0..6)
        .map(|number| {
            let inputs = [uniform(&host, number), uniform(&host, number + 1)];
            bytes(&host, &work(&host, &constants[0], &inputs.each_ref()).unwrap()[1])
        })
        .collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    let recordings: Vec<Recording> = (0..6).map(|_| Recording::default()).collect();
    // Threads of the pool do other work while they wait for parts of theirs.
    pool.install(|| {
        (0..120u32).into_par_iter().for_each(|step| {
            let number = step % 6;
            let inputs = [uniform(&ring, number), uniform(&ring, number + 1)];
            let outputs = ring.repeat(&recordings[number as usize], &inputs.each_ref(), |inputs| {
                let (outputs, _) =
                    rayon::join(|| work(&ring, &constants[1], inputs), || ring.mul(inputs[0], inputs[1]));
                outputs
            });
            assert!(bytes(&ring, &outputs.unwrap()[1]) == wanted[number as usize], "step {step}");
        });
    });
    assert!(device.recorded() > 0);
}

fn launches(device: &Device) -> u64 {
    device.launches().map(|launches| launches.launches).iter().sum()
}

#[test]
fn after_a_failure_the_processor_computes_if_it_may() {
    for allowed in [false, true] {
        let host = host();
        let device = failing_device(64 << 20, 3);
        if allowed {
            device.fall_back();
        }
        let ring = host.on_device(&device).unwrap();
        let [a, b] = [1, 2].map(|number| uniform(&ring, number));
        let there = ring.mul(&a, &b).unwrap();
        assert!(launches(&device) > 0);
        let failed = |result: Result<Poly, RingError>| match result {
            Err(RingError::Device(DeviceError::Replaced { .. })) => assert!(allowed),
            Err(RingError::Device(DeviceError::Failed { .. })) => assert!(!allowed),
            result => panic!("{result:?}"),
        };
        failed((0..9).find_map(|_| ring.mul(&a, &b).err()).map_or_else(|| ring.mul(&a, &b), Err));
        assert!(device.failure().is_some());
        // What the device alone had is lost.
        failed(ring.add(&there, &a));
        failed(ring.add(&a, &there));
        failed(ring.mul(&there, &there));
        let sum = ring.add(&a, &b);
        if !allowed {
            failed(sum);
            continue;
        }
        let wanted = host.add(&uniform(&host, 1), &uniform(&host, 2)).unwrap();
        let mut sum = sum.unwrap();
        assert!(bytes(&host, &wanted) == bytes(&ring, &sum));
        drop(ring.zero(Basis::chain(3), Domain::Evaluation));
        let before = launches(&device);
        ring.to_coefficients(&mut sum).unwrap();
        ring.neg_assign(&mut sum).unwrap();
        assert_eq!(launches(&device), before);
    }
}

#[test]
fn two_devices_have_memory_of_their_own() {
    let (host, devices) = (host(), [device(64 << 20), device(64 << 20)]);
    let rings = devices.each_ref().map(|device| host.on_device(device).unwrap());
    let products = rings.each_ref().map(|ring| {
        let [a, b] = [1, 2].map(|number| uniform(ring, number));
        ring.mul(&a, &b).unwrap()
    });
    assert!(bytes(&rings[0], &products[0]) == bytes(&rings[1], &products[1]));
    assert!(matches!(rings[0].add(&products[0], &products[1]), Err(RingError::ForeignOperand { .. })));
    // From one to the other through the memory of this process.
    let moved = rings[1].read_residues(&bytes(&rings[0], &products[0]), Basis::chain(3), Domain::Evaluation).unwrap();
    let sums = [rings[1].add(&moved, &products[1]), rings[0].add(&products[0], &products[0])].map(Result::unwrap);
    assert!(bytes(&rings[1], &sums[0]) == bytes(&rings[0], &sums[1]));
    let mut parts = [products[0].clone(), products[1].clone()];
    rings.iter().zip(&mut parts).for_each(|(ring, part)| ring.to_coefficients(part).unwrap());
    let embedded = [rings[0].embed_from(&rings[1], &parts[1]), rings[0].embed_from(&rings[0], &parts[0])];
    let [across, within] = embedded.map(Result::unwrap);
    assert!(bytes(&rings[0], &across) == bytes(&rings[0], &within));
    // A device that fails leaves the other as it is.
    let failing = failing_device(64 << 20, 0);
    let ring = host.on_device(&failing).unwrap();
    let one = uniform(&ring, 1);
    assert!(ring.add(&one, &one).is_err() && devices.iter().all(|device| device.failure().is_none()));
    rings[1].add(&products[1], &products[1]).unwrap();
}
