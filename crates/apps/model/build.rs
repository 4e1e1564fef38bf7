//! Compiles the protobuf schema without an installed `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = "proto/unspoken/model/v1/model.proto";
    println!("cargo:rerun-if-changed={schema}");
    prost_build::Config::new().compile_fds(protox::compile([schema], ["proto"])?)?;
    Ok(())
}
