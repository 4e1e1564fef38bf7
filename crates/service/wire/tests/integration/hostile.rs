//! Untrusted bytes cause an error and nothing else.

use proptest::prelude::*;
use unspoken_wire::v1::{
    AnswerStream, ApplicationDescription, KeyDeclaration, KeyList, KeyState, KeyStatus, Problem, Progress,
};
use unspoken_wire::{
    AnswerFrame, AnswerReader, CheckedDeclaration, MAX_CONTROL_BYTES, Message, ProblemCode, WireError, answer_front,
    decode, decode_json, is_application_name, problem_frame, progress_frame,
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
fn messages_in_json_have_one_form() {
    let declared = serde_json::to_value(declaration()).unwrap();
    let hash = "09".repeat(32);
    let form = serde_json::json!({ "application": "classify/spam", "key_format": 3, "length": 1000, "blake3": hash });
    assert_eq!(declared, form);
    let description = ApplicationDescription { description: vec![0xfb, 0xff], ..Default::default() };
    assert_eq!(serde_json::to_value(&description).unwrap()["description"], "+/8=");
    for (state, name) in [(KeyState::Uploading, "uploading"), (KeyState::Ready, "ready")] {
        let status = KeyStatus { state: state.into(), ..KeyStatus::default() };
        let json = serde_json::to_value(&status).unwrap();
        assert_eq!(json["state"], name);
        assert_eq!(decode_json::<KeyStatus>(json.to_string().as_bytes(), 1000).unwrap(), status);
    }
    let newer = KeyStatus { state: 7, ..KeyStatus::default() };
    let json = serde_json::to_string(&newer).unwrap();
    assert_eq!(decode_json::<KeyStatus>(json.as_bytes(), 1000).unwrap(), newer);
    for wrong in ["2", "\"Ready\"", "\"\"", "null"] {
        assert!(decode_json::<KeyStatus>(json.replace('7', wrong).as_bytes(), 1000).is_err(), "{wrong}");
    }
    for wrong in ["\"-_8=\"", "\"+/8\"", "\"+/9=\"", "\"+/8=\\n\"", "[251,255]", "7"] {
        let text = format!("{{\"name\":\"\",\"limits\":null,\"description\":{wrong}}}");
        assert!(decode_json::<ApplicationDescription>(text.as_bytes(), 1000).is_err(), "{wrong}");
    }
}

#[test]
fn json_over_the_limit_or_out_of_shape_is_named_and_not_repeated() {
    let text = serde_json::to_string(&declaration()).unwrap();
    let limit = text.len();
    assert_eq!(decode_json::<KeyDeclaration>(text.as_bytes(), limit).unwrap(), declaration());
    let longer = decode_json::<KeyDeclaration>(text.as_bytes(), limit - 1).unwrap_err();
    assert!(matches!(longer, WireError::TooLong { message: "KeyDeclaration", .. }), "{longer}");
    for cut in 0..limit {
        let said = decode_json::<KeyDeclaration>(&text.as_bytes()[..cut], limit).unwrap_err().to_string();
        assert!(said.contains("KeyDeclaration") && said.contains("cut off at line 1"), "{said}");
    }
    let other = text.replace("1000", "\"a private text\"");
    let said = decode_json::<KeyDeclaration>(other.as_bytes(), 1000).unwrap_err().to_string();
    assert!(said.contains("not of its type at line 1, column ") && !said.contains("private"), "{said}");
}

#[test]
fn a_problem_is_readable_as_json() {
    let problem = Problem { code: "too_large".into(), status: 413, ..Problem::default() };
    let json = serde_json::to_value(&problem).unwrap();
    assert_eq!((json["code"].as_str(), json["status"].as_u64()), (Some("too_large"), Some(413)));
}

/// The frames of a stream that arrives in pieces of `piece_bytes` bytes.
fn frames(stream: &[u8], most: usize, piece_bytes: usize) -> Result<Vec<AnswerFrame>, WireError> {
    let (mut reader, mut frames) = (AnswerReader::new(most), Vec::new());
    for mut piece in stream.chunks(piece_bytes) {
        while !piece.is_empty() {
            frames.extend(reader.read(&mut piece)?);
        }
    }
    Ok(frames)
}

fn problem() -> Problem {
    Problem { code: "answer_timeout".into(), status: 504, ..Problem::default() }
}

#[test]
fn a_stream_is_read_in_pieces_of_any_length_and_is_one_message() {
    let progress = |done, total| AnswerFrame::Progress(Progress { done, total });
    let steps = [progress(0, 0), progress(1, 300), progress(300, 300)];
    let front = [progress_frame(0, 0), progress_frame(1, 300), progress_frame(300, 300)].concat();
    let answered = [front.clone(), answer_front(200), vec![7; 200]].concat();
    let refused = [front.clone(), problem_frame(&problem())].concat();
    let empty = [front, answer_front(0)].concat();
    for (stream, last) in [
        (answered, AnswerFrame::Answer(vec![7; 200])),
        (refused, AnswerFrame::Problem(problem())),
        (empty, AnswerFrame::Answer(Vec::new())),
    ] {
        let expected = [steps.as_slice(), std::slice::from_ref(&last)].concat();
        for piece_bytes in 1..=stream.len() {
            assert_eq!(frames(&stream, 200, piece_bytes).unwrap(), expected, "{piece_bytes}");
        }
        for cut in 0..stream.len() {
            let cut_off = frames(&stream[..cut], 200, 9).unwrap();
            assert!(!cut_off.contains(&last), "{cut}");
        }
        let message = AnswerStream::decode(stream.as_slice()).unwrap();
        assert_eq!(message.progress.len(), steps.len());
        let (answer, problem) = match last {
            AnswerFrame::Answer(answer) => (answer, None),
            AnswerFrame::Problem(problem) => (Vec::new(), Some(problem)),
            AnswerFrame::Progress(_) => unreachable!(),
        };
        assert_eq!((message.answer, message.problem), (answer, problem));
    }
}

#[test]
fn a_frame_over_its_limit_is_refused_by_its_length() {
    let long = |tag: u8, length: &[u8]| [&[tag], length].concat();
    for (front, name) in [
        (answer_front(201), "answer"),
        (answer_front(usize::MAX), "answer"),
        (long(0x0a, &[65]), "Progress"),
        (long(0x12, &[0x81, 0x80, 0x40]), "Problem"),
    ] {
        match frames(&front, 200, 1) {
            Err(WireError::TooLong { message, .. }) => assert_eq!(message, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    // Lengths that no number holds.
    for length in [[0xff; 10], [0x80; 10]] {
        assert!(matches!(frames(&long(0x1a, &length), usize::MAX, 1), Err(WireError::Malformed { .. })));
    }
    // What is announced takes no memory before it arrives.
    let announced = answer_front(1 << 60);
    assert_eq!(frames(&[announced.as_slice(), &[1, 2, 3]].concat(), usize::MAX, 4).unwrap(), []);
}

#[test]
fn frames_that_make_no_sense_are_named() {
    let more_done_than_there_is = progress_frame(3, 2);
    let after_the_answer = [answer_front(1), vec![7], progress_frame(1, 2)].concat();
    let two_answers = [answer_front(0), answer_front(0)].concat();
    let after_the_problem = [problem_frame(&problem()), vec![0]].concat();
    let succeeded = problem_frame(&Problem { status: 200, ..problem() });
    let other_field = [0x22, 0];
    let other_type = [0x18, 7];
    for (stream, name) in [
        (more_done_than_there_is.as_slice(), "progress"),
        (&after_the_answer, "end"),
        (&two_answers, "end"),
        (&after_the_problem, "end"),
        (&succeeded, "status of the problem"),
        (&other_field, "tag"),
        (&other_type, "tag"),
    ] {
        match frames(stream, 200, 3) {
            Err(WireError::Field { field, .. }) => assert_eq!(field, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn progress_that_never_ends_is_refused() {
    let limit = 1 << 20;
    let steps = progress_frame(0, 0).repeat(limit);
    assert_eq!(frames(&steps, 200, 1 << 16).unwrap().len(), limit);
    let more = [steps.as_slice(), &progress_frame(0, 0)].concat();
    assert!(matches!(frames(&more, 200, 1 << 16), Err(WireError::Field { field: "progress", .. })));
    let answered = [steps, answer_front(0)].concat();
    assert_eq!(frames(&answered, 200, 1 << 16).unwrap().len(), limit + 1);
}

proptest! {
    #[test]
    fn arbitrary_streams_never_panic_and_pieces_do_not_matter(
        start in 0..4_usize,
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        piece_bytes in 1..20_usize,
    ) {
        let start = [vec![], progress_frame(5, 9), answer_front(100), problem_frame(&problem())][start].clone();
        let stream = [start, bytes].concat();
        let (whole, pieces) = (frames(&stream, 256, stream.len().max(1)), frames(&stream, 256, piece_bytes));
        prop_assert_eq!(whole.is_ok(), pieces.is_ok());
        if let (Ok(whole), Ok(pieces)) = (whole, pieces) {
            let last_only = |frame: &AnswerFrame| !matches!(frame, AnswerFrame::Progress(_));
            prop_assert!(whole.iter().rev().skip(1).all(|frame| !last_only(frame)));
            prop_assert_eq!(whole, pieces);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let limit = 256;
        let over = bytes.len() > limit;
        let declared = decode::<KeyDeclaration>(&bytes, limit).and_then(CheckedDeclaration::try_from);
        prop_assert!(!(over && declared.is_ok()));
        prop_assert!(decode_json::<KeyDeclaration>(&bytes, limit).is_err());
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
        let json = serde_json::to_vec(&sent).unwrap();
        prop_assert_eq!(decode_json::<KeyDeclaration>(&json, MAX_CONTROL_BYTES)?, sent);
    }
}
