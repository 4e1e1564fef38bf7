//! Compiles the protobuf schema without an installed `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = "proto/unspoken/v1/service.proto";
    println!("cargo:rerun-if-changed={schema}");
    let descriptors = protox::compile([schema], ["proto"])?;
    prost_build::Config::new()
        .type_attribute(".", "#[derive(serde::Serialize, serde::Deserialize)]")
        .compile_fds(descriptors)?;
    Ok(())
}
