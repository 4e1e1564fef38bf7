//! Compiles the protobuf schema without an installed `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = "proto/unspoken/v1/service.proto";
    println!("cargo:rerun-if-changed={schema}");
    let descriptors = protox::compile([schema], ["proto"])?;
    prost_build::Config::new()
        .type_attribute(".", "#[derive(serde::Serialize, serde::Deserialize)]")
        .type_attribute(".", "#[cfg_attr(feature = \"openapi\", derive(utoipa::ToSchema))]")
        // A misspelt field of a request is an error and not a default.
        .type_attribute(".unspoken.v1.KeyDeclaration", "#[serde(deny_unknown_fields)]")
        .field_attribute(".unspoken.v1.KeyDeclaration.blake3", "#[serde(with = \"crate::json::hexadecimal\")]")
        .field_attribute(".unspoken.v1.ApplicationDescription.description", "#[serde(with = \"crate::json::base64\")]")
        .field_attribute(".unspoken.v1.AnswerStream.answer", "#[serde(with = \"crate::json::base64\")]")
        .field_attribute(".unspoken.v1.KeyStatus.state", "#[serde(with = \"crate::json::key_state\")]")
        // What the types do not say about these fields in JSON.
        .field_attribute(".unspoken.v1.KeyDeclaration.application", schema_of(NAME))
        .field_attribute(".unspoken.v1.KeyDeclaration.key_format", schema_of("maximum = 4294967295_u32"))
        .field_attribute(".unspoken.v1.KeyDeclaration.length", schema_of("minimum = 1"))
        .field_attribute(".unspoken.v1.KeyDeclaration.blake3", schema_of(HASH))
        .field_attribute(".unspoken.v1.KeyStatus.id", schema_of(ID))
        .field_attribute(".unspoken.v1.KeyStatus.state", schema_of("schema_with = crate::json::key_state_schema"))
        .field_attribute(".unspoken.v1.KeyStatus.expires", schema_of("format = DateTime"))
        .field_attribute(".unspoken.v1.ApplicationDescription.limits", schema_of("value_type = Limits, required"))
        .field_attribute(
            ".unspoken.v1.ApplicationDescription.description",
            schema_of("value_type = String, format = Byte"),
        )
        .field_attribute(".unspoken.v1.AnswerStream.answer", schema_of("value_type = String, format = Byte"))
        .compile_fds(descriptors)?;
    Ok(())
}

const NAME: &str = r#"max_length = 120, pattern = "^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*$""#;
const HASH: &str = r#"value_type = String, min_length = 64, max_length = 64, pattern = "^[0-9a-f]{64}$""#;
const ID: &str = r#"min_length = 32, max_length = 32, pattern = "^[0-9a-f]{32}$""#;

/// An attribute with what the OpenAPI schema of a field has in addition to its type.
fn schema_of(text: &str) -> String {
    format!("#[cfg_attr(feature = \"openapi\", schema({text}))]")
}
