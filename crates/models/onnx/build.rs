//! Compiles the protobuf schema without an installed `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = "proto/onnx.proto";
    println!("cargo:rerun-if-changed={schema}");
    // `Bytes` of a decoded tensor are a part of the file's bytes, not a copy.
    prost_build::Config::new().bytes(["."]).compile_fds(protox::compile([schema], ["proto"])?)?;
    Ok(())
}
