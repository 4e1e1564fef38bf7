//! Numbers of few bits: fractions rounded to them, and their packing into bytes.

/// The highest bits of a fraction in units of `2^-32`, rounded, modulo 1.
pub(crate) fn highest(fraction: u32, bits: u32) -> u32 {
    let shift = u32::BITS - bits;
    fraction.wrapping_add(1 << (shift - 1)) >> shift
}

/// Bytes of `count` numbers of `bits` bits.
pub(crate) fn packed_bytes(count: usize, bits: u32) -> usize {
    (count * bits as usize).div_ceil(8)
}

/// Packs numbers of `bits` bits, the lowest bit first. The unused bits of the last byte are zero.
pub(crate) fn packed(numbers: &[u32], bits: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(packed_bytes(numbers.len(), bits));
    let (mut pending, mut filled) = (0u64, 0);
    for &number in numbers {
        pending |= u64::from(number) << filled;
        filled += bits;
        while filled >= 8 {
            bytes.push(pending as u8);
            pending >>= 8;
            filled -= 8;
        }
    }
    if filled > 0 {
        bytes.push(pending as u8);
    }
    bytes
}

/// The inverse of [`packed`] for `count` numbers, or nothing if the bytes are not the packing of `count` numbers.
pub(crate) fn unpacked(bytes: &[u8], bits: u32, count: usize) -> Option<Vec<u32>> {
    if bytes.len() != packed_bytes(count, bits) {
        return None;
    }
    let mut numbers = Vec::with_capacity(count);
    let (mut pending, mut filled) = (0u64, 0);
    for &byte in bytes {
        pending |= u64::from(byte) << filled;
        filled += 8;
        while filled >= bits && numbers.len() < count {
            numbers.push((pending & ((1 << bits) - 1)) as u32);
            pending >>= bits;
            filled -= bits;
        }
    }
    (pending == 0).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_width_and_count_come_back() {
        for bits in [1, 5, 7, 8, 24, 32] {
            for count in 0..20u32 {
                let numbers: Vec<u32> = (0..count).map(|i| (i.wrapping_mul(0x9E37_79B1)) >> (32 - bits)).collect();
                let bytes = packed(&numbers, bits);
                assert_eq!(bytes.len(), packed_bytes(numbers.len(), bits));
                assert_eq!(unpacked(&bytes, bits, numbers.len()), Some(numbers), "{bits} bits, {count} numbers");
            }
        }
    }

    #[test]
    fn other_lengths_and_bits_that_are_not_used_are_refused() {
        // Three numbers of five bits: two bytes, of which one bit is not used.
        let bytes = packed(&[31, 0, 31], 5);
        assert_eq!(unpacked(&bytes, 5, 3), Some(vec![31, 0, 31]));
        assert_eq!(unpacked(&[bytes[0], bytes[1] | 0x80], 5, 3), None);
        assert_eq!(unpacked(&bytes[..1], 5, 3), None);
        assert_eq!(unpacked(&[bytes[0], bytes[1], 0], 5, 3), None);
        // Seven numbers of five bits have room for an eighth one.
        assert_eq!(unpacked(&packed(&[1; 8], 5), 5, 7), None);
    }
}
