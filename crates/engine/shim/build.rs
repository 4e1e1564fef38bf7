//! Compiles the kernels as C++.

fn main() {
    let kernels = "../device/kernels";
    println!("cargo::rerun-if-changed={kernels}");
    println!("cargo::rerun-if-changed=src/host.cpp");
    println!("cargo::rerun-if-env-changed=UNSPOKEN_SANITIZE");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").include(kernels).file("src/host.cpp").opt_level(2).warnings(true).extra_warnings(true);
    if std::env::var_os("UNSPOKEN_SANITIZE").is_some() {
        build.flag("-fsanitize=undefined").flag("-fno-sanitize-recover=all");
        println!("cargo::rustc-link-lib=ubsan");
    }
    build.compile("unspoken_kernels");
}
