//! The form of fields in JSON that JSON has no type for. Hashes and ids are lower-case hexadecimal digits, other bytes
//! are base64 (RFC 4648, with `=` at the end), states are their names.

/// Bytes as lower-case hexadecimal digits.
pub(crate) mod hexadecimal {
    use std::borrow::Cow;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        // One form only: `hex::decode` would also take capitals and a prefix.
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let decoded = text.bytes().all(is_digit).then(|| hex::decode(text.as_bytes()));
        decoded.and_then(Result::ok).ok_or_else(|| D::Error::custom("not pairs of lower-case hexadecimal digits"))
    }
}

/// Bytes in base64.
pub(crate) mod base64 {
    use std::borrow::Cow;

    use ::base64::Engine;
    use ::base64::prelude::BASE64_STANDARD;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        BASE64_STANDARD.decode(text.as_bytes()).map_err(|_| D::Error::custom("not base64"))
    }
}

/// States are their names in JSON. A number that this version does not know stays a number, as in protobuf's own JSON.
pub(crate) mod key_state {
    use std::borrow::Cow;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::v1::KeyState;

    /// Every state with its name.
    pub(crate) const NAMES: [(KeyState, &str); 3] =
        [(KeyState::Unspecified, "unspecified"), (KeyState::Uploading, "uploading"), (KeyState::Ready, "ready")];

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form<'a> {
        Name(Cow<'a, str>),
        Number(i32),
    }

    pub(crate) fn serialize<S: Serializer>(state: &i32, serializer: S) -> Result<S::Ok, S::Error> {
        match NAMES.iter().find(|(known, _)| *known as i32 == *state) {
            Some((_, name)) => serializer.serialize_str(name),
            None => serializer.serialize_i32(*state),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
        let unknown = || D::Error::custom("not the name of a state");
        match Form::deserialize(deserializer)? {
            Form::Name(name) => {
                let found = NAMES.iter().find(|(_, known)| *known == name);
                found.map(|(state, _)| *state as i32).ok_or_else(unknown)
            }
            Form::Number(state) if KeyState::try_from(state).is_err() => Ok(state),
            Form::Number(_) => Err(unknown()),
        }
    }
}

/// The states that a server sends.
#[cfg(feature = "openapi")]
pub(crate) fn key_state_schema() -> utoipa::openapi::schema::Object {
    use utoipa::openapi::schema::{ObjectBuilder, Type};
    let names = key_state::NAMES.iter().skip(1).map(|(_, name)| *name);
    let about = "`uploading`: bytes are missing, or the upload was not completed yet. `ready`: checked, stored, and \
                 ready for queries.";
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).description(Some(about)).build()
}
