//! Secrets encrypted under a passphrase, to be stored.
//!
//! A sealed secret is 8 bytes of magic and version, the parameters of Argon2id (memory in KiB, passes and lanes, each 4
//! bytes, little-endian), 16 bytes of salt, 24 bytes of nonce, and the secret under XChaCha20-Poly1305 with its tag.
//! All bytes before the nonce are authenticated, then the service and the application of the secret, each as its length
//! in bytes (8 bytes, little-endian) and its UTF-8. So nobody who can write to the storage can pass a secret off as the
//! secret of another application. A passphrase is used in UTF-8 and the normalisation form C of Unicode, so that it is
//! the same on every system.
//!
//! Version 1 was the same without service and application.

use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce};
use unicode_normalization::UnicodeNormalization;
use unspoken_ring::SecretRng;
use zeroize::Zeroizing;

use crate::failure::Failure;

/// What a sealed secret begins with; the last byte is the version.
const MAGIC: [u8; 8] = *b"UNSPSEC\x02";

/// Parameters of Argon2id: the second recommendation of RFC 9106 (64 MiB, 3 passes), with one lane, because a page
/// computes on one thread.
const MEMORY_KIB: u32 = 64 << 10;
const PASSES: u32 = 3;
const LANES: u32 = 1;

/// Largest parameters that are read: others would take minutes, or more memory than a page has.
const MAX_MEMORY_KIB: u32 = 1 << 20;
const MAX_PASSES: u32 = 16;
const MAX_LANES: u32 = 16;

const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// Bytes in front of the nonce, and in front of the secret.
const HEAD_BYTES: usize = MAGIC.len() + 12 + SALT_BYTES;
const FRONT_BYTES: usize = HEAD_BYTES + NONCE_BYTES;

/// What a secret is for: it is opened for nothing else.
#[derive(Clone, Copy)]
pub(crate) struct Purpose<'a> {
    /// Address of the service.
    pub(crate) service: &'a str,
    /// Name of the application.
    pub(crate) application: &'a str,
}

impl Purpose<'_> {
    /// What is authenticated with a secret: the bytes in front of the nonce, and this.
    fn beside(self, head: &[u8]) -> Vec<u8> {
        let mut bytes = head.to_vec();
        for text in [self.service, self.application] {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes
    }
}

/// Encrypts a secret under a passphrase.
///
/// # Errors
/// If the passphrase is empty, or there is no randomness or memory.
pub(crate) fn seal(passphrase: &str, purpose: Purpose<'_>, secret: &[u8]) -> Result<Vec<u8>, Failure> {
    seal_with(passphrase, purpose, secret, [MEMORY_KIB, PASSES, LANES])
}

/// [`seal`] with other parameters of Argon2id.
fn seal_with(passphrase: &str, purpose: Purpose<'_>, secret: &[u8], parameters: [u32; 3]) -> Result<Vec<u8>, Failure> {
    if passphrase.is_empty() {
        return Err(refuse("passphrase", "an empty one", "one with some characters"));
    }
    let mut sealed = MAGIC.to_vec();
    for number in parameters {
        sealed.extend(number.to_le_bytes());
    }
    let mut random = [0; SALT_BYTES + NONCE_BYTES];
    SecretRng::from_os()?.fill(&mut random);
    sealed.extend(random);
    let (head, nonce) = sealed.split_at(HEAD_BYTES);
    let mut content = Zeroizing::new(secret.to_vec());
    let cipher = cipher(passphrase, head)?;
    let tag = cipher.encrypt_inout_detached(&nonce_of(nonce)?, &purpose.beside(head), content.as_mut_slice().into());
    let tag = tag.map_err(|_| refuse("secret", "one that is too long", "a secret of this package"))?;
    sealed.extend_from_slice(&content);
    sealed.extend_from_slice(&tag);
    Ok(sealed)
}

/// Decrypts a sealed secret of untrusted bytes.
///
/// # Errors
/// If the passphrase or the purpose is another one, the bytes are damaged, of another version or no sealed secret.
pub(crate) fn unseal(passphrase: &str, purpose: Purpose<'_>, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let needed = "bytes that this package sealed";
    let (name, version) = MAGIC.split_at(MAGIC.len() - 1);
    if let Some(found) = sealed.strip_prefix(name).and_then(|rest| rest.first()).filter(|found| **found != version[0]) {
        let found = match found {
            1 => "one of version 1, which does not say for which service and application it is".into(),
            other => format!("one of version {other}"),
        };
        let needed = format!("version {}; delete it, and open without it: the client makes a new secret", version[0]);
        return Err(Failure::Argument { what: "sealed secret", found, needed });
    }
    if !sealed.starts_with(&MAGIC) || sealed.len() < FRONT_BYTES + TAG_BYTES {
        return Err(refuse("sealed secret", "other bytes", needed));
    }
    let (head, rest) = sealed.split_at(HEAD_BYTES);
    let (nonce, rest) = rest.split_at(NONCE_BYTES);
    let (content, tag) = rest.split_at(rest.len() - TAG_BYTES);
    let mut content = Zeroizing::new(content.to_vec());
    let tag = Tag::try_from(tag).map_err(|_| refuse("sealed secret", "no tag", needed))?;
    cipher(passphrase, head)?
        .decrypt_inout_detached(&nonce_of(nonce)?, &purpose.beside(head), content.as_mut_slice().into(), &tag)
        .map_err(|_| {
            let found = "another one, a secret of another service or application, or damaged bytes";
            refuse("passphrase", found, "the one with which the secret was sealed")
        })?;
    Ok(content)
}

/// The cipher of a passphrase, for the parameters and the salt of a head of untrusted bytes.
fn cipher(passphrase: &str, head: &[u8]) -> Result<XChaCha20Poly1305, Failure> {
    let number = |at: usize| {
        let bytes = head[MAGIC.len() + 4 * at..][..4].try_into();
        u32::from_le_bytes(bytes.unwrap_or_default())
    };
    let (memory, passes, lanes) = (number(0), number(1), number(2));
    if memory > MAX_MEMORY_KIB || passes > MAX_PASSES || lanes > MAX_LANES {
        let found = format!("{memory} KiB, {passes} passes, {lanes} lanes");
        let needed = "at most 1 GiB, 16 passes and 16 lanes; do not use these bytes";
        return Err(Failure::Argument { what: "parameters of Argon2id", found, needed: needed.into() });
    }
    let failed = |error: argon2::Error| {
        refuse("parameters of Argon2id", &error.to_string(), "those of a sealed secret, and memory for them")
    };
    // Systems write the same letters in other code points.
    let mut normal = Zeroizing::new(String::with_capacity(4 * passphrase.len()));
    normal.extend(passphrase.nfc());
    let mut key = Zeroizing::new([0; 32]);
    let parameters = Params::new(memory, passes, lanes, Some(key.len())).map_err(failed)?;
    let salt = &head[HEAD_BYTES - SALT_BYTES..];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters)
        .hash_password_into(normal.as_bytes(), salt, key.as_mut_slice())
        .map_err(failed)?;
    XChaCha20Poly1305::new_from_slice(key.as_slice()).map_err(|_| refuse("key", "another length", "32 bytes"))
}

fn nonce_of(bytes: &[u8]) -> Result<XNonce, Failure> {
    XNonce::try_from(bytes).map_err(|_| refuse("nonce", "another length", "24 bytes"))
}

fn refuse(what: &'static str, found: &str, needed: &str) -> Failure {
    Failure::Argument { what, found: found.into(), needed: needed.into() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use serde_json::{Value, json};

    use super::*;

    const PURPOSE: Purpose<'_> = Purpose { service: "https://service.example", application: "pir/codes" };

    fn decoded(value: &Value) -> Vec<u8> {
        BASE64_STANDARD.decode(value.as_str().unwrap()).unwrap()
    }

    /// What `vectors/seal.json` is made of. The secret is one of retrieval, so that a client can be opened with it.
    fn vectors() -> Value {
        // With an umlaut of one code point, and of two.
        let (passphrase, same) = ("correct horse Stra\u{df}e \u{fc}", "correct horse Stra\u{df}e u\u{308}");
        let secret: Vec<u8> = (0..32).collect();
        let case = |name: &str, parameters: [u32; 3]| {
            let sealed = seal_with(passphrase, PURPOSE, &secret, parameters).unwrap();
            let refused = |name: &str, passphrase: &str, at: usize, bytes: &[u8]| {
                let mut changed = sealed.clone();
                changed[at..][..bytes.len()].copy_from_slice(bytes);
                json!({ "name": name, "passphrase": passphrase, "sealed": BASE64_STANDARD.encode(changed) })
            };
            let flipped = |name: &str, at: usize| refused(name, passphrase, at, &[sealed[at] ^ 1]);
            let elsewhere = |name: &str, field: &str, value: &str| {
                let mut elsewhere = refused(name, passphrase, 0, &[]);
                elsewhere[field] = json!(value);
                elsewhere
            };
            let mut cut = refused("without the last byte", passphrase, 0, &[]);
            cut["sealed"] = json!(BASE64_STANDARD.encode(&sealed[..sealed.len() - 1]));
            json!({
                "name": name,
                "passphrase": passphrase,
                "same_passphrase": same,
                "service": PURPOSE.service,
                "application": PURPOSE.application,
                "secret": BASE64_STANDARD.encode(&secret),
                "sealed": BASE64_STANDARD.encode(&sealed),
                "refused": [
                    refused("another passphrase", "correct horse", 0, &[]),
                    elsewhere("another service", "service", "https://other.example"),
                    elsewhere("another application", "application", "pir/other"),
                    refused("the version before", passphrase, MAGIC.len() - 1, &[1]),
                    refused("another version", passphrase, MAGIC.len() - 1, &[3]),
                    refused("too much memory", passphrase, MAGIC.len(), &(MAX_MEMORY_KIB + 1).to_le_bytes()),
                    refused("too many passes", passphrase, MAGIC.len() + 4, &(MAX_PASSES + 1).to_le_bytes()),
                    refused("no memory", passphrase, MAGIC.len(), &[0; 4]),
                    flipped("a bit of the salt", HEAD_BYTES - 1),
                    flipped("a bit of the nonce", HEAD_BYTES),
                    flipped("a bit of the content", FRONT_BYTES),
                    flipped("a bit of the tag", sealed.len() - 1),
                    cut,
                ],
            })
        };
        json!({
            "format": "unspoken-vectors/seal",
            "version": 2,
            "about": "A secret that is encrypted under a passphrase, for an application of a service.",
            "cases": [
                case("parameters of this release", [MEMORY_KIB, PASSES, LANES]),
                case("other parameters", [256, 2, 3]),
            ],
        })
    }

    /// `UNSPOKEN_WRITE_VECTORS=1 cargo test --release -p unspoken-web seal` writes the file.
    #[test]
    fn secrets_are_opened_as_in_the_vectors() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../vectors/seal.json");
        if std::env::var_os("UNSPOKEN_WRITE_VECTORS").is_some() {
            std::fs::write(&path, serde_json::to_string_pretty(&vectors()).unwrap() + "\n").unwrap();
        }
        let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert_eq!((&file["format"], &file["version"]), (&json!("unspoken-vectors/seal"), &json!(2)));
        for case in file["cases"].as_array().unwrap() {
            let text = |value: &Value, field: &str| value[field].as_str().or(case[field].as_str()).unwrap().to_owned();
            let opened = |value: &Value, passphrase: &str, sealed: &Value| {
                let (service, application) = (text(value, "service"), text(value, "application"));
                unseal(passphrase, Purpose { service: &service, application: &application }, &decoded(sealed))
            };
            for form in ["passphrase", "same_passphrase"] {
                let passphrase = case[form].as_str().unwrap();
                assert_eq!(opened(case, passphrase, &case["sealed"]).unwrap()[..], decoded(&case["secret"]));
            }
            for refused in case["refused"].as_array().unwrap() {
                let opened = opened(refused, refused["passphrase"].as_str().unwrap(), &refused["sealed"]);
                assert!(opened.is_err(), "{}: {}", case["name"], refused["name"]);
            }
        }
    }

    #[test]
    fn a_sealed_secret_opens_with_its_passphrase_alone() {
        let secret = [7; 48];
        let sealed = seal("correct horse", PURPOSE, &secret).unwrap();
        assert_eq!(sealed.len(), FRONT_BYTES + secret.len() + TAG_BYTES);
        assert!(!sealed.windows(8).any(|window| window == &secret[..8]));
        assert_eq!(unseal("correct horse", PURPOSE, &sealed).unwrap()[..], secret);
        let error = unseal("another", PURPOSE, &sealed).unwrap_err().to_string();
        assert!(error.contains("the one with which the secret was sealed"), "{error}");
        assert_ne!(seal("correct horse", PURPOSE, &secret).unwrap(), sealed);
        assert!(seal("", PURPOSE, &secret).unwrap_err().to_string().contains("an empty one"));
    }

    /// Whoever can write to the storage of a page does not pass one secret off as another.
    #[test]
    fn a_sealed_secret_is_for_one_application_of_one_service() {
        let sealed = seal("p", PURPOSE, &[7; 32]).unwrap();
        let others = [
            Purpose { service: "https://service.example/below", ..PURPOSE },
            Purpose { application: "pir/code", ..PURPOSE },
            // The same texts, divided elsewhere.
            Purpose { service: "https://service.examplep", application: "ir/codes" },
        ];
        for other in others {
            let error = unseal("p", other, &sealed).unwrap_err().to_string();
            assert!(error.contains("another service or application"), "{error}");
        }
        let mut earlier = sealed.clone();
        earlier[MAGIC.len() - 1] = 1;
        let error = unseal("p", PURPOSE, &earlier).unwrap_err().to_string();
        for part in ["version 1, which does not say for which service", "needed version 2; delete it"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn damaged_and_hostile_bytes_are_refused() {
        let sealed = seal("p", PURPOSE, &[1; 32]).unwrap();
        for length in 0..sealed.len() {
            assert!(unseal("p", PURPOSE, &sealed[..length]).is_err(), "{length} bytes");
        }
        // The salt, the nonce, the content and the tag; the magic.
        for at in [0, HEAD_BYTES - 1, HEAD_BYTES, FRONT_BYTES, sealed.len() - 1] {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert!(unseal("p", PURPOSE, &damaged).is_err(), "byte {at}");
        }
        for (at, number) in [(0, u32::MAX), (1, 1000), (2, 99), (0, 0)] {
            let mut hostile = sealed.clone();
            hostile[MAGIC.len() + 4 * at..][..4].copy_from_slice(&number.to_le_bytes());
            let error = unseal("p", PURPOSE, &hostile).unwrap_err().to_string();
            assert!(error.starts_with("parameters of Argon2id"), "{error}");
        }
    }
}
