use super::*;
use crate::preset::Preset;
use crate::shape::{DatabaseShape, MAX_INDEX_BITS};
use crate::tables::Tables;

fn keys_layout(buckets: u64, candidates: u32) -> Layout {
    Layout::Keys { buckets, bucket_bytes: 256, candidates, seed: [7; 16] }
}

#[test]
fn the_longest_record_by_key_has_a_layout_and_a_longer_one_has_none() {
    for bytes in (0..400).chain([16_397, 16_398, 1 << 20]) {
        let longest = Bucket::longest_value(bytes);
        assert!(longest == 0 || Bucket::entry_bytes(longest) <= bytes, "{bytes}");
        assert!(Bucket::entry_bytes(longest + 1) > bytes, "{bytes}");
    }
    let parameters = Preset::N11.build().unwrap();
    let plan = KeysPlan::new(TableKind::Transformed, 2, [0; 16]);
    let longest = Layout::longest_record(&parameters, TableKind::Transformed, true);
    assert!(Layout::for_keys(&parameters, [longest, 1], &plan).is_ok());
    let refused = Layout::for_keys(&parameters, [longest + 1, 1], &plan).unwrap_err();
    let expected = format!("a record of {} bytes does not fit: at most {longest} bytes", longest + 1);
    assert!(refused.to_string().starts_with(&expected), "{refused}");
}

#[test]
fn records_of_all_lengths_come_back() {
    let variable = Layout::Index { records: 10, length: Length::Variable { max: 300 } };
    for length in [0, 1, 255, 256, 299, 300] {
        let record: Vec<u8> = (0..length).map(|i| i as u8 | 1).collect();
        let mut cell = variable.cell(Some(&record)).unwrap();
        assert_eq!(cell.len(), variable.cell_bytes());
        cell.resize(512, 0);
        assert_eq!(variable.record(&cell).unwrap(), Some(record.as_slice()));
    }
    assert_eq!(variable.record(&variable.cell(None).unwrap()).unwrap(), None);
    assert!(matches!(variable.cell(Some(&[0; 301])), Err(SchemeError::Length { found: 301, .. })));
    let fixed = Layout::Index { records: 10, length: Length::Fixed(256) };
    assert_eq!(fixed.planes(&Preset::InsecureN11.build().unwrap(), TableKind::Transformed), 1);
    assert_eq!(fixed.record(&fixed.cell(Some(&[5; 256])).unwrap()).unwrap(), Some(&[5; 256][..]));
    assert!(fixed.cell(Some(&[5; 255])).is_err() && fixed.cell(None).is_err());
    let empty = Layout::Index { records: 10, length: Length::Fixed(0) };
    assert_eq!(empty.planes(&Preset::InsecureN11.build().unwrap(), TableKind::Transformed), 1);
    assert_eq!(empty.record(&[0; 256]).unwrap(), Some(&[][..]));
}

#[test]
fn cells_of_no_layout_are_refused() {
    let layout = Layout::Index { records: 10, length: Length::Variable { max: 8 } };
    let good = layout.cell(Some(&[1, 2, 3])).unwrap();
    for (at, byte) in [(0, 14), (3, 1), (8, 1), (0, 0)] {
        let mut bad = good.clone();
        bad[at] = byte;
        assert!(matches!(layout.record(&bad), Err(SchemeError::Cell { .. })), "{at}");
    }
    assert!(layout.record(&good[1..]).is_err());
    assert!(layout.record(&[good.clone(), vec![1]].concat()).is_err());
    assert!(layout.find(b"key", std::slice::from_ref(&good)).is_err() && layout.candidates(b"key").is_err());
    assert!(keys_layout(5, 1).record(&good).is_err() && keys_layout(5, 1).check_index(0).is_err());
    assert!(layout.check_index(9).is_ok());
    assert!(matches!(layout.check_index(10), Err(SchemeError::Record { records: 10 })));
    let refused = layout.check_index(7_351).unwrap_err().to_string();
    assert!(refused.contains("10 records") && !refused.contains("7351"), "{refused}");
}

#[test]
fn candidates_are_distinct_and_spread() {
    for (buckets, candidates) in [(1, 1), (2, 2), (3, 3), (5, 3), (1000, 2)] {
        let layout = keys_layout(buckets, candidates);
        let mut counts = vec![0u32; buckets as usize];
        for i in 0..3000u32 {
            let mut chosen = layout.candidates(&i.to_le_bytes()).unwrap();
            assert_eq!(*chosen, layout.buckets_of(layout.tag(&i.to_le_bytes()).unwrap()).unwrap());
            chosen.iter().for_each(|&bucket| counts[bucket as usize] += 1);
            chosen.sort_unstable();
            chosen.dedup();
            assert_eq!(chosen.len(), candidates as usize);
        }
        let mean = 3000.0 * f64::from(candidates) / buckets as f64;
        assert!(counts.iter().all(|&count| (f64::from(count) - mean).abs() <= 6.0 * mean.sqrt()), "{buckets}");
    }
    let other = Layout::Keys { buckets: 1000, bucket_bytes: 256, candidates: 2, seed: [8; 16] };
    assert_ne!(other.tag(b"key").unwrap(), keys_layout(1000, 2).tag(b"key").unwrap());
}

#[test]
fn buckets_come_back_and_find_their_keys() {
    let layout = keys_layout(50, 2);
    let mut bucket = Bucket::default();
    for (key, length) in [("a", 0), ("b", 1), ("c", 127), ("d", 40)] {
        assert!(bucket.insert(layout.tag(key.as_bytes()).unwrap(), vec![9; length]).is_none());
    }
    assert_eq!(bucket.insert(layout.tag(b"d").unwrap(), vec![1; 60]), Some(vec![9; 40]));
    let mut bytes = bucket.to_bytes(256).unwrap();
    assert_eq!(bytes.len(), 256);
    assert_eq!(Bucket::read(&bytes).unwrap(), bucket);
    bytes.resize(512, 0);
    let empty = Bucket::default().to_bytes(256).unwrap();
    let cells = [bytes.clone(), empty.clone()];
    let find = |key: &[u8]| layout.find(key, &cells).unwrap();
    assert_eq!(find(b"a"), Some(&[][..]));
    assert_eq!(find(b"d"), Some(&[1; 60][..]));
    assert_eq!(find(b"e"), None);
    assert!(layout.find(b"a", &[bytes.clone()]).is_err());
    assert!(layout.find(b"a", &[bytes.clone(), bytes.clone()]).is_err());
    assert!(bucket.to_bytes(bucket.bytes()).is_ok() && bucket.to_bytes(bucket.bytes() - 1).is_err());
    assert_eq!(bucket.remove(layout.tag(b"c").unwrap()), Some(vec![9; 127]));
    assert_eq!(bucket.remove(layout.tag(b"c").unwrap()), None);
}

#[test]
fn every_bucket_has_one_form() {
    let entry = |tag: u8| [vec![tag; 12], vec![2, 5, 5]].concat();
    let bucket = |parts: &[&[u8]]| {
        let mut bytes = parts.concat();
        bytes.resize(64, 0);
        Bucket::read(&bytes)
    };
    assert_eq!(bucket(&[&[2, 0], &entry(1), &entry(2)]).unwrap().entries().len(), 2);
    // Wrong order, repetition, a count that is too small or too large, a non-minimal length, a length beyond the
    // bucket.
    assert!(bucket(&[&[2, 0], &entry(2), &entry(1)]).is_err());
    assert!(bucket(&[&[2, 0], &entry(1), &entry(1)]).is_err());
    assert!(bucket(&[&[1, 0], &entry(1), &entry(2)]).is_err());
    assert!(bucket(&[&[9, 0], &entry(1), &entry(2)]).is_err());
    assert!(bucket(&[&[1, 0], &[1; 12], &[0x82, 0, 5, 5]]).is_err());
    assert!(bucket(&[&[1, 0], &[1; 12], &[64, 5, 5]]).is_err());
    assert!(bucket(&[&[1, 0], &[1; 12], &[0xff, 0xff, 0xff, 0xff, 1]]).is_err());
    assert!(Bucket::read(&[0]).is_err());
    for length in [0, 127, 128, 16383, 16384, 1 << 20] {
        let mut bucket = Bucket::default();
        bucket.insert(Tag([1; 12]), vec![3; length]);
        let bytes = bucket.to_bytes(bucket.bytes()).unwrap();
        assert_eq!(Bucket::read(&bytes).unwrap(), bucket);
    }
}

#[test]
fn layouts_from_outside_are_checked() {
    let parameters = Preset::InsecureN11.build().unwrap();
    let (fixed, variable) = (Length::Fixed, |max| Length::Variable { max });
    let index = |records, length| Layout::Index { records, length };
    let keys = |buckets, bucket_bytes, candidates| Layout::Keys { buckets, bucket_bytes, candidates, seed: [0; 16] };
    for good in [index(1, fixed(0)), index(1 << 20, fixed(256)), index(3, variable((1 << 20) - 4)), keys(2, 15, 2)] {
        good.check(&parameters, TableKind::Transformed).unwrap();
    }
    for bad in [
        index(0, fixed(1)),
        index((1 << 25) + 1, fixed(1)),
        index(u64::MAX, fixed(u32::MAX)),
        index(1, variable(u32::MAX)),
        index(1, variable((1 << 20) - 3)),
        index(1 << 24, variable(1 << 18)),
        keys(1, 256, 2),
        keys(9, 256, 0),
        keys(9, 256, 4),
        keys(9, 14, 1),
        keys(u64::MAX, u32::MAX, 1),
    ] {
        assert!(bad.check(&parameters, TableKind::Transformed).is_err(), "{bad:?}");
    }
}

#[test]
fn plans_have_room_and_fill_rows() {
    let parameters = Preset::InsecureN11.build().unwrap();
    for (count, length, candidates) in [(0, 0, 1), (1, 3, 2), (1000, 20, 1), (97_584, 75, 2), (20_000, 300, 3)] {
        let plan = KeysPlan::new(TableKind::Transformed, candidates, [1; 16]);
        let layout = Layout::for_keys(&parameters, (0..count).map(|i| length + i % 2), &plan).unwrap();
        let Layout::Keys { buckets, bucket_bytes, .. } = layout else { panic!("{layout:?}") };
        let bytes: usize = (0..count).map(|i| Bucket::entry_bytes(length + i % 2)).sum();
        let load = bytes as f64 / (buckets as f64 * f64::from(bucket_bytes - 2));
        assert!(load <= plan.load * STRETCH_FOR_TESTS, "{layout:?} {load}");
        assert!(bucket_bytes as usize >= 2 + Bucket::entry_bytes(length) && bucket_bytes % 256 == 0);
        assert!(count < 1000 || load > plan.load * 0.9, "{layout:?} {load}");
        let shape = DatabaseShape::new(&parameters, buckets).unwrap();
        assert_eq!(buckets % (1 << (shape.column_bits + shape.piece_bits)), 0);
    }
    let mut plan = KeysPlan::new(TableKind::Transformed, 2, [1; 16]);
    plan.keys = 1 << 30;
    let large = Layout::for_keys(&parameters, [10, 11], &plan).unwrap();
    assert!(large.cells() <= 1 << MAX_INDEX_BITS && large.cell_bytes() > 256, "{large:?}");
    large.check(&parameters, TableKind::Transformed).unwrap();
    // A few long records: a bucket has room for at most all of them, and at most the maximum size.
    let single = KeysPlan::new(TableKind::Transformed, 1, [1; 16]);
    for lengths in [vec![100_000, 0], vec![100_000; 30]] {
        let layout = Layout::for_keys(&parameters, lengths.iter().copied(), &single).unwrap();
        assert!(layout.cell_bytes() > 100_000 && layout.cells() * layout.cell_bytes() as u64 >= 200_000, "{layout:?}");
    }
    assert!(Layout::for_keys(&parameters, [1 << 20], &KeysPlan::new(TableKind::Transformed, 2, [1; 16])).is_err());
    assert!(Layout::for_keys(&parameters, [1], &KeysPlan { load: f64::NAN, ..plan }).is_err());
    assert!(Layout::for_keys(&parameters, [1], &KeysPlan::new(TableKind::Transformed, 9, [1; 16])).is_err());
    let by_index = Layout::for_index(&parameters, TableKind::Transformed, [5, 5], (9, 5)).unwrap();
    // The additional records are absent, not zeros.
    assert_eq!(by_index, Layout::Index { records: 9, length: Length::Variable { max: 5 } });
    let by_index = Layout::for_index(&parameters, TableKind::Transformed, [5, 5], (2, 5)).unwrap();
    assert_eq!(by_index, Layout::Index { records: 2, length: Length::Fixed(5) });
    let by_index = Layout::for_index(&parameters, TableKind::Transformed, [5, 0], (0, 0)).unwrap();
    assert_eq!(by_index, Layout::Index { records: 2, length: Length::Variable { max: 5 } });
    let by_index = Layout::for_index(&parameters, TableKind::Transformed, [5, 5], (0, 6)).unwrap();
    assert_eq!(by_index, Layout::Index { records: 2, length: Length::Variable { max: 6 } });
    let roomy = KeysPlan { longest: 600, ..KeysPlan::new(TableKind::Transformed, 2, [1; 16]) };
    assert_eq!(Layout::for_keys(&parameters, [10, 11], &roomy).unwrap().cell_bytes(), 768);
    assert!(Layout::for_index(&parameters, TableKind::Transformed, [(1 << 20) + 1], (0, 0)).is_err());
    assert!(Layout::for_index(&parameters, TableKind::Transformed, [], (0, 0)).is_err());
}

const STRETCH_FOR_TESTS: f64 = 1.07;

#[test]
fn dense_tables_have_buckets_of_their_own_lengths() {
    let parameters = Preset::InsecureN11.build().unwrap();
    for (count, length, candidates) in [(1, 3, 1), (1000, 20, 1), (97_584, 75, 2), (20_000, 300, 3), (500, 3000, 2)] {
        let plan = KeysPlan::new(TableKind::Dense, candidates, [1; 16]);
        let layout = Layout::for_keys(&parameters, (0..count).map(|i| length + i % 2), &plan).unwrap();
        let (bytes, tables) = (layout.cell_bytes(), Tables::new(&parameters, layout, TableKind::Dense).unwrap());
        assert_eq!(tables.planes() * tables.piece_bytes(), bytes, "no padding");
        assert!(bytes >= 2 + Bucket::entry_bytes(length) && tables.log2_failure(Mode::Packed).unwrap() <= -40.0);
        let needed: usize = (0..count).map(|i| Bucket::entry_bytes(length + i % 2)).sum();
        let load = needed as f64 / (layout.cells() as f64 * (bytes - 2) as f64);
        assert!(
            load <= plan.load * STRETCH_FOR_TESTS && (count < 20_000 || load > plan.load * 0.9),
            "{layout:?} {load}"
        );
    }
    // Longer cells than a piece have several.
    let layout = Layout::Index { records: 10, length: Length::Fixed(2049) };
    let tables = Tables::new(&parameters, layout, TableKind::Dense).unwrap();
    assert_eq!((tables.planes(), tables.piece_bytes()), (2, 2048));
    // There may be more cells than in transformed tables.
    let many = Layout::Index { records: 1 << 27, length: Length::Fixed(64) };
    assert!(many.check(&parameters, TableKind::Transformed).is_err());
    many.check(&parameters, TableKind::Dense).unwrap();
    assert!(
        Layout::Index { records: (1 << 32) + 1, length: Length::Fixed(1) }
            .check(&parameters, TableKind::Dense)
            .is_err()
    );
}
