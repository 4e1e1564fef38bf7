//! Random changes of requests.

use super::recorder::head_bytes;

/// Numbers that parsers may not expect.
const NUMBERS: [&str; 8] = ["0", "1", "-1", "4294967296", "9223372036854775807", "18446744073709551615", "1e9", "0x10"];
const METHODS: [&str; 7] = ["GET", "POST", "PATCH", "DELETE", "PUT", "OPTIONS", "BREW"];

/// One of the requests, with one to four random changes.
pub fn mutated(requests: &[Vec<u8>], random: &mut fastrand::Rng) -> Vec<u8> {
    let pick = |random: &mut fastrand::Rng| requests[random.usize(..requests.len())].clone();
    let mut request = pick(random);
    for _ in 0..random.u8(1..=4) {
        let head = head_bytes(&request).unwrap_or(request.len());
        match random.u8(..12) {
            0 | 1 => flip(&mut request[..head], random),
            2..=4 => flip(&mut request[head..], random),
            5 => request.truncate(random.usize(..=request.len())),
            6 => replace_word(&mut request, head, random, |byte| byte.is_ascii_digit(), &NUMBERS),
            7 => replace_method(&mut request, random),
            8 => remove_line(&mut request, head, random),
            9 => {
                // The body of another request, with this one's head, or the other way round.
                let other = pick(random);
                let body = head_bytes(&other).unwrap_or(other.len());
                request.truncate(head);
                request.extend_from_slice(&other[body..]);
            }
            10 => {
                let (at, count) = (random.usize(..=request.len()), random.usize(1..200));
                let bytes: Vec<u8> = (0..count).map(|_| random.u8(..)).collect();
                request.splice(at..at, bytes);
            }
            _ => request.extend_from_slice(&pick(random)),
        }
    }
    request
}

/// Changes one to eight bytes.
fn flip(bytes: &mut [u8], random: &mut fastrand::Rng) {
    if bytes.is_empty() {
        return;
    }
    for _ in 0..random.u8(1..=8) {
        // Headers of messages are at the front.
        let within = if random.bool() { bytes.len() } else { bytes.len().min(64) };
        bytes[random.usize(..within)] = random.u8(..);
    }
}

/// Replaces a run of such bytes in the head.
fn replace_word(
    request: &mut Vec<u8>,
    head: usize,
    random: &mut fastrand::Rng,
    of: impl Fn(u8) -> bool,
    words: &[&str],
) {
    let start = random.usize(..=head);
    let Some(first) = request[start..head].iter().position(|&byte| of(byte)).map(|at| start + at) else { return };
    let count = request[first..head].iter().take_while(|&&byte| of(byte)).count();
    let word = words[random.usize(..words.len())];
    request.splice(first..first + count, word.bytes());
}

fn replace_method(request: &mut Vec<u8>, random: &mut fastrand::Rng) {
    let count = request.iter().take_while(|&&byte| byte != b' ').count();
    request.splice(..count, METHODS[random.usize(..METHODS.len())].bytes());
}

/// Removes a line of the head.
fn remove_line(request: &mut Vec<u8>, head: usize, random: &mut fastrand::Rng) {
    let ends: Vec<usize> = (0..head).filter(|&at| request[at] == b'\n').collect();
    if ends.len() > 1 {
        let line = random.usize(..ends.len() - 1);
        request.drain(ends[line] + 1..=ends[line + 1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_differ_and_follow_from_the_seed() {
        let requests = [
            b"POST /v1/apps/x HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello".to_vec(),
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        ];
        let mutants = |seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            (0..2000).map(|_| mutated(&requests, &mut random)).collect::<Vec<_>>()
        };
        let (first, again) = (mutants(1), mutants(1));
        assert!(first == again && first != mutants(2));
        let unchanged = first.iter().filter(|mutant| requests.contains(mutant)).count();
        assert!(unchanged < 200, "{unchanged} mutants are not mutated");
    }
}
