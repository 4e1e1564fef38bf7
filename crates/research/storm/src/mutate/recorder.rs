//! A proxy that records the requests which pass through it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that clients sent, one list for each connection.
type Streams = Arc<Mutex<Vec<Vec<u8>>>>;

/// A proxy to a service. Its threads end with the process.
pub struct Recorder {
    /// Where it listens.
    pub address: SocketAddr,
    streams: Streams,
}

impl Recorder {
    /// Starts a proxy to `service`.
    pub fn start(service: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, streams) = (listener.local_addr()?, Streams::default());
        let recorded = Arc::clone(&streams);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(service) else { continue };
                let number = {
                    let mut streams = recorded.lock().unwrap_or_else(PoisonError::into_inner);
                    streams.push(Vec::new());
                    streams.len() - 1
                };
                if let (Ok(from), Ok(to)) = (server.try_clone(), client.try_clone()) {
                    std::thread::spawn(move || pass(from, to, |_| {}));
                }
                let recorded = Arc::clone(&recorded);
                std::thread::spawn(move || {
                    pass(client, server, |bytes| {
                        recorded.lock().unwrap_or_else(PoisonError::into_inner)[number].extend_from_slice(bytes);
                    });
                });
            }
        });
        Ok(Recorder { address, streams })
    }

    /// The requests recorded so far, each with its body: the first and the last of each method and path, because a key
    /// bundle is uploaded in many chunks.
    pub fn requests(&self) -> Vec<Vec<u8>> {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kinds = BTreeMap::<Vec<u8>, Vec<Vec<u8>>>::new();
        for request in streams.iter().flat_map(|stream| split(stream)) {
            let line = request.iter().take_while(|&&byte| byte != b'\r').copied().collect();
            let same = kinds.entry(line).or_default();
            same.truncate(1);
            same.push(request);
        }
        kinds.into_values().flatten().collect()
    }
}

/// Copies bytes until one side closes.
fn pass(mut from: TcpStream, mut to: TcpStream, mut record: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = from.read(&mut buffer) {
        record(&buffer[..count]);
        if count == 0 || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// The requests in a stream. Their bodies have the lengths that their heads declare.
fn split(mut stream: &[u8]) -> Vec<Vec<u8>> {
    let mut requests = Vec::new();
    while let Some(head) = head_bytes(stream) {
        let length = content_length(&stream[..head]).min(stream.len() - head);
        let (request, rest) = stream.split_at(head + length);
        requests.push(request.to_vec());
        stream = rest;
    }
    requests
}

/// Length of the head of a request, with the empty line.
pub fn head_bytes(request: &[u8]) -> Option<usize> {
    request.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// Length of the body that a head declares, 0 if it does not.
pub fn content_length(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_split_into_requests() {
        let (first, second) = ("POST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", "GET /b HTTP/1.1\r\n\r\n");
        let requests = split(format!("{first}{second}").as_bytes());
        assert_eq!(requests, [first.as_bytes(), second.as_bytes()]);
    }
}
