//! Answers that are sent while they are computed: an [`AnswerStream`](crate::v1::AnswerStream), field by field.
//!
//! Each field is a frame: a tag of one byte, the length as a varint, and the bytes of that length.

use prost::{Message, decode_length_delimiter, encode_length_delimiter};

use crate::v1::{Problem, Progress};
use crate::{MAX_CONTROL_BYTES, WireError, decode};

/// Tags of the fields: number and wire type.
const PROGRESS: u8 = tag(1);
const PROBLEM: u8 = tag(2);
const ANSWER: u8 = tag(3);

/// Longest [`Progress`] that is read, in bytes.
const MAX_PROGRESS_BYTES: usize = 64;

/// Most [`Progress`] messages of one answer that are read: three days of four a second.
const MAX_PROGRESS_FRAMES: u32 = 1 << 20;

/// Longest varint in bytes.
const MAX_VARINT_BYTES: usize = 10;

/// One field of an answer that is sent while it is computed.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerFrame {
    /// How far the answer is, `done` at most `total`.
    Progress(Progress),
    /// There is no answer. The last frame; the status is one of 400 to 599.
    Problem(Problem),
    /// The answer's bytes. The last frame.
    Answer(Vec<u8>),
}

/// The frame of a progress message.
pub fn progress_frame(done: u32, total: u32) -> Vec<u8> {
    message_frame(PROGRESS, &Progress { done, total })
}

/// The frame of a problem, which ends the stream.
pub fn problem_frame(problem: &Problem) -> Vec<u8> {
    message_frame(PROBLEM, problem)
}

/// What is sent before the `length` bytes of an answer, which end the stream.
pub fn answer_front(length: usize) -> Vec<u8> {
    front(ANSWER, length)
}

fn message_frame(tag: u8, message: &impl Message) -> Vec<u8> {
    let mut frame = front(tag, message.encoded_len());
    frame.extend(message.encode_to_vec());
    frame
}

fn front(tag: u8, length: usize) -> Vec<u8> {
    let mut front = vec![tag];
    // A vector has room for every length.
    let _ = encode_length_delimiter(length, &mut front);
    front
}

/// The tag of a field of bytes.
const fn tag(number: u8) -> u8 {
    number << 3 | 2
}

/// Reads an answer that is sent while it is computed, from untrusted bytes in pieces of any length. Each length is
/// compared with its limit before a byte of the frame is kept, and memory grows with the bytes that arrive.
///
/// ```
/// use unspoken_wire::{AnswerFrame, AnswerReader, answer_front, progress_frame};
///
/// let stream = [progress_frame(1, 2), answer_front(3), vec![7, 7, 7]].concat();
/// let (mut reader, mut rest, mut frames) = (AnswerReader::new(3), stream.as_slice(), Vec::new());
/// while !rest.is_empty() {
///     frames.extend(reader.read(&mut rest)?);
/// }
/// assert!(matches!(frames[0], AnswerFrame::Progress(step) if (step.done, step.total) == (1, 2)));
/// assert_eq!(frames[1], AnswerFrame::Answer(vec![7, 7, 7]));
/// assert!(AnswerReader::new(2).read(&mut answer_front(3).as_slice()).is_err());
/// # Ok::<(), unspoken_wire::WireError>(())
/// ```
#[derive(Debug)]
pub struct AnswerReader {
    most_answer_bytes: usize,
    progress_frames: u32,
    /// Tag and length of the next frame, as far as they have arrived.
    front: Vec<u8>,
    open: Option<OpenFrame>,
    ended: bool,
}

/// A frame of which bytes are missing.
#[derive(Debug)]
struct OpenFrame {
    tag: u8,
    length: usize,
    bytes: Vec<u8>,
}

impl AnswerReader {
    /// A reader of an answer of at most `most_answer_bytes` bytes.
    pub fn new(most_answer_bytes: usize) -> Self {
        Self { most_answer_bytes, progress_frames: 0, front: Vec::new(), open: None, ended: false }
    }

    /// Takes bytes from the start of `piece`, until a frame is complete or none are left. Not to be called again after
    /// an error.
    ///
    /// # Errors
    /// [`WireError`] if the bytes are no such stream, a frame is over its limit, or something follows the last frame.
    pub fn read(&mut self, piece: &mut &[u8]) -> Result<Option<AnswerFrame>, WireError> {
        let mut frame = match self.open.take() {
            Some(frame) => frame,
            None => match self.read_front(piece)? {
                Some((tag, length)) => OpenFrame { tag, length, bytes: Vec::new() },
                None => return Ok(None),
            },
        };
        let (own, rest) = piece.split_at(piece.len().min(frame.length - frame.bytes.len()));
        frame.bytes.extend_from_slice(own);
        *piece = rest;
        if frame.bytes.len() < frame.length {
            self.open = Some(frame);
            return Ok(None);
        }
        if frame.tag == PROGRESS {
            return read_progress(&frame.bytes).map(Some);
        }
        self.ended = true;
        if frame.tag == PROBLEM {
            read_problem(&frame.bytes).map(Some)
        } else {
            Ok(Some(AnswerFrame::Answer(frame.bytes)))
        }
    }

    /// Tag and length of the next frame, once they have arrived.
    fn read_front(&mut self, piece: &mut &[u8]) -> Result<Option<(u8, usize)>, WireError> {
        while let Some((&byte, rest)) = piece.split_first() {
            if self.ended {
                return Err(wrong("end", format!("{} bytes after it", piece.len()), "the answer or the problem last"));
            }
            *piece = rest;
            self.front.push(byte);
            let (tag, length) = (self.front[0], &self.front[1..]);
            let (message, limit) = self.limit(tag)?;
            let is_whole = length.last().is_some_and(|last| last & 0x80 == 0);
            if !is_whole && length.len() < MAX_VARINT_BYTES {
                continue;
            }
            let length = decode_length_delimiter(length).map_err(|source| WireError::Malformed { message, source })?;
            if length > limit {
                return Err(WireError::TooLong { message, found: length, limit });
            }
            self.front.clear();
            self.progress_frames += u32::from(tag == PROGRESS);
            return Ok(Some((tag, length)));
        }
        Ok(None)
    }

    /// Name and longest length of the frames with a tag, if one may follow.
    fn limit(&self, tag: u8) -> Result<(&'static str, usize), WireError> {
        match tag {
            PROGRESS if self.progress_frames == MAX_PROGRESS_FRAMES => {
                let found = format!("sent over {MAX_PROGRESS_FRAMES} times");
                Err(wrong("progress", found, "the answer or the problem in the end"))
            }
            PROGRESS => Ok(("Progress", MAX_PROGRESS_BYTES)),
            PROBLEM => Ok(("Problem", MAX_CONTROL_BYTES)),
            ANSWER => Ok(("answer", self.most_answer_bytes)),
            _ => Err(wrong("tag", format!("{tag:#04x}"), "that of progress, a problem or an answer")),
        }
    }
}

fn read_progress(bytes: &[u8]) -> Result<AnswerFrame, WireError> {
    let progress = decode::<Progress>(bytes, MAX_PROGRESS_BYTES)?;
    if progress.done > progress.total {
        let found = format!("{} of {}", progress.done, progress.total);
        return Err(wrong("progress", found, "no more steps done than there are"));
    }
    Ok(AnswerFrame::Progress(progress))
}

fn read_problem(bytes: &[u8]) -> Result<AnswerFrame, WireError> {
    let problem = decode::<Problem>(bytes, MAX_CONTROL_BYTES)?;
    if !(400..600).contains(&problem.status) {
        return Err(wrong("status of the problem", problem.status.to_string(), "one of 400 to 599"));
    }
    Ok(AnswerFrame::Problem(problem))
}

fn wrong(field: &'static str, found: String, needed: &'static str) -> WireError {
    WireError::Field { message: "AnswerStream", field, found, needed }
}
