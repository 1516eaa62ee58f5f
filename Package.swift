// swift-tools-version: 6.2
import PackageDescription

// Dependencies run one way only, from the executables down to the pure algorithms:
//
//   Streams ─ StreamsCore ─ Replay ─ ForebayWire; StreamsTestSupport ─ StreamsCore
//   forebayd ─ Server ─┬─ Core ─┬─ ForebayWire   (what protocols and clients have in common)
//                      │        ├─ Replay        (no I/O, no payloads)
//                      │        ├─ RSocket ─ Bytes
//                      │        └─ HTTP2 ─┬─ CNGHTTP2
//                      │                  └─ RSocket
//                      ├─ Access ─ Core, CCrypt, CJansson, COpenSSL
//                      ├─ TLS ─ COpenSSL, EventLoop
//                      ├─ Configuration ─ CYAML
//                      ├─ EventLoop ─ CLinux
//                      ├─ CMicroHTTPD
//                      └─ CAdminPage           (the admin page's files)
//   forebay ─ Client ─┬─ RSocket, HTTP2
//                     └─ TLS, EventLoop
//   Forebay ─ Client, StreamsCore
//   bench ─ Forebay, Streams
//   forebay, bench ─ Measure      (no I/O)
//   forebay-sim ─ Simulator ─ Core, RSocket, HTTP2, Replay      (no I/O)
//   forebay, Server ─ Manual      (no I/O)
//
// `make build` passes --explicit-target-dependency-import-check error, so an import that is not
// declared here does not compile.

let strict: [SwiftSetting] = [.treatAllWarnings(as: .error)]

// On the path of every read and write, a third of the instructions were the run-time's checks for overlapping access to
// the fields of objects that one thread alone ever sees. Unoptimised builds, as `make swift-test` makes them, check.
let hot: [SwiftSetting] =
    strict + [.unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))]

// The targets of the fuzzers, in Tests/Fuzz. Ordinary builds make tests of them, which replay the inputs that are kept.
// With FOREBAY_FUZZ set they are a program instead, driven by libFuzzer: `make fuzz` builds it.
let fuzzed: [Target.Dependency] = [
    "Access", "Bytes", "Client", "Configuration", "Core", "ForebayWire", "HTTP2", "HTTP2Frames", "RSocket",
    "Server",
]
let fuzz: Target =
    Context.environment["FOREBAY_FUZZ"] == nil
    ? .testTarget(
        name: "FuzzTests", dependencies: fuzzed, path: "Tests/Fuzz",
        exclude: ["Driver", "corpus", "dictionaries", "regressions"], swiftSettings: strict)
    : .executableTarget(
        name: "fuzz", dependencies: fuzzed, path: "Tests/Fuzz",
        exclude: ["Replay", "corpus", "dictionaries", "regressions"], swiftSettings: strict)

let package = Package(
    name: "forebay",
    products: [
        .executable(name: "forebayd", targets: ["forebayd"]),
        .executable(name: "forebay", targets: ["forebay"]),
        .executable(name: "bench", targets: ["Bench"]),
        .executable(name: "forebay-sim", targets: ["forebay-sim"]),
        .library(name: "Streams", targets: ["Streams"]),
        .library(name: "StreamsTestSupport", targets: ["StreamsTestSupport"]),
        .library(name: "Forebay", targets: ["Forebay"]),
    ],
    targets: [
        .target(name: "CLinux", cSettings: [.unsafeFlags(["-Wall", "-Wextra", "-Werror"])]),
        .target(name: "Bytes", swiftSettings: strict),
        .target(name: "ForebayWire", path: "Sources/Wire/ForebayWire", swiftSettings: strict),
        .target(name: "Replay", dependencies: ["ForebayWire"], swiftSettings: strict),
        .target(name: "StreamsCore", dependencies: ["ForebayWire", "Replay"], swiftSettings: strict),
        .target(name: "Streams", dependencies: ["StreamsCore"], swiftSettings: strict),
        .target(name: "StreamsTestSupport", dependencies: ["StreamsCore"], swiftSettings: strict),
        .target(name: "RSocket", dependencies: ["Bytes"], swiftSettings: strict),
        .systemLibrary(name: "CNGHTTP2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
        .target(name: "HTTP2", dependencies: ["CNGHTTP2", "Bytes", "ForebayWire", "RSocket"], swiftSettings: hot),
        .target(
            name: "Core", dependencies: ["Bytes", "ForebayWire", "Replay", "RSocket", "HTTP2"], swiftSettings: hot),
        .target(name: "EventLoop", dependencies: ["CLinux"], swiftSettings: strict),
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CCrypt", pkgConfig: "libcrypt", providers: [.apt(["libcrypt-dev"])]),
        .systemLibrary(name: "CJansson", pkgConfig: "jansson", providers: [.apt(["libjansson-dev"])]),
        .target(
            name: "Access", dependencies: ["Bytes", "Core", "CCrypt", "CJansson", "COpenSSL"], swiftSettings: strict),
        .target(name: "TLS", dependencies: ["COpenSSL", "EventLoop"], swiftSettings: hot),
        .systemLibrary(name: "CYAML", providers: [.apt(["libyaml-dev"])]),
        .target(name: "Configuration", dependencies: ["CYAML"], swiftSettings: strict),
        .systemLibrary(name: "CMicroHTTPD", pkgConfig: "libmicrohttpd", providers: [.apt(["libmicrohttpd-dev"])]),
        .target(
            name: "CAdminPage",
            exclude: ["index.html", "style.css", "script.js", "kit.js", "tables.js", "tail.js", "icon.svg"],
            cSettings: [.unsafeFlags(["-Wall", "-Wextra", "-Werror", "-Wno-c23-extensions"])]),
        .target(
            name: "Server",
            dependencies: [
                "Access", "Bytes", "Configuration", "Core", "ForebayWire", "HTTP2", "EventLoop", "CAdminPage", "CLinux",
                "CMicroHTTPD",
                "Manual", "Replay", "TLS",
            ],
            swiftSettings: hot),
        .target(
            name: "Client", dependencies: ["Bytes", "ForebayWire", "RSocket", "HTTP2", "EventLoop", "CLinux", "TLS"],
            swiftSettings: strict),
        .target(
            name: "Forebay",
            dependencies: ["StreamsCore", "Client", "EventLoop", "ForebayWire", "RSocket", "Bytes", "TLS"],
            swiftSettings: strict),
        .executableTarget(
            name: "ticker", dependencies: ["Forebay", "Streams"], path: "Examples/Ticker", swiftSettings: strict),
        .executableTarget(
            name: "slow-consumer", dependencies: ["Forebay"], path: "Examples/SlowConsumer", swiftSettings: strict),
        .executableTarget(
            name: "pausable-view", dependencies: ["Forebay", "Streams"], path: "Examples/PausableView",
            swiftSettings: strict),
        .executableTarget(
            name: "pipeline", dependencies: ["Forebay", "Streams"], path: "Examples/Pipeline", swiftSettings: strict),
        .target(name: "Measure", swiftSettings: strict),
        .target(name: "Manual", swiftSettings: strict),
        .executableTarget(name: "forebayd", dependencies: ["Server"], swiftSettings: strict),
        .executableTarget(
            name: "forebay",
            dependencies: ["Client", "ForebayWire", "RSocket", "EventLoop", "Bytes", "Measure", "Manual", "TLS"],
            swiftSettings: strict),
        .target(name: "CBench", cSettings: [.unsafeFlags(["-Wall", "-Wextra", "-Werror"])]),
        .executableTarget(
            name: "Bench", dependencies: ["CBench", "RSocket", "EventLoop", "Bytes", "Measure", "Streams", "Forebay"],
            swiftSettings: strict),
        .testTarget(name: "BytesTests", dependencies: ["Bytes"], swiftSettings: strict),
        .testTarget(name: "ReplayTests", dependencies: ["ForebayWire", "Replay"], swiftSettings: strict),
        .testTarget(
            name: "StreamsTests", dependencies: ["Streams", "StreamsCore", "StreamsTestSupport"],
            swiftSettings: strict),
        .testTarget(name: "RSocketTests", dependencies: ["RSocket", "Bytes"], swiftSettings: strict),
        .testTarget(
            name: "HTTP2Tests", dependencies: ["HTTP2", "HTTP2Frames", "CNGHTTP2", "Bytes"],
            exclude: ["GRPC", "Plain"], swiftSettings: strict),
        .target(
            name: "HTTP2Frames", dependencies: ["CNGHTTP2", "Bytes"], path: "Tests/HTTP2Frames",
            swiftSettings: strict),
        .testTarget(
            name: "GRPCTests", dependencies: ["ForebayWire", "HTTP2", "RSocket", "Bytes"],
            path: "Tests/HTTP2Tests/GRPC",
            swiftSettings: strict),
        .testTarget(
            name: "PlainTests", dependencies: ["HTTP2", "RSocket", "Bytes", "CAllocations"],
            path: "Tests/HTTP2Tests/Plain", swiftSettings: strict),
        .target(name: "CAllocations", path: "Tests/CAllocations"),
        .executableTarget(
            name: "Budget", dependencies: ["Core", "RSocket", "Bytes", "CAllocations", "HTTP2Frames"],
            path: "Tests/Budget", exclude: ["costs.txt", "figures.txt"], swiftSettings: hot),
        .testTarget(
            name: "CoreTests",
            dependencies: [
                "Core", "ForebayWire", "RSocket", "HTTP2", "HTTP2Frames", "CNGHTTP2", "Bytes", "Replay", "CAllocations",
            ],
            swiftSettings: strict),
        .target(
            name: "Simulator",
            dependencies: [
                "Core", "ForebayWire", "RSocket", "HTTP2", "HTTP2Frames", "Replay", "Bytes", "CAllocations",
            ],
            swiftSettings: strict),
        .executableTarget(name: "forebay-sim", dependencies: ["Simulator"], swiftSettings: strict),
        .testTarget(
            name: "SimulatorTests", dependencies: ["Simulator"], exclude: ["seeds.txt"], swiftSettings: strict),
        .testTarget(name: "AccessTests", dependencies: ["Access", "Core"], swiftSettings: strict),
        .testTarget(name: "EventLoopTests", dependencies: ["EventLoop"], swiftSettings: strict),
        .testTarget(name: "ConfigurationTests", dependencies: ["Configuration"], swiftSettings: strict),
        .target(name: "TestCertificates", path: "Tests/TestCertificates", swiftSettings: strict),
        .testTarget(name: "TLSTests", dependencies: ["TLS", "EventLoop", "TestCertificates"], swiftSettings: strict),
        .testTarget(
            name: "ServerTests",
            dependencies: [
                "Server", "Access", "Configuration", "Core", "HTTP2", "EventLoop", "TLS", "TestCertificates",
            ],
            swiftSettings: strict),
        .testTarget(
            name: "ClientTests",
            dependencies: ["Client", "ForebayWire", "forebay", "RSocket", "HTTP2", "EventLoop", "Bytes", "TLS"],
            swiftSettings: strict),
        .testTarget(
            name: "ForebayTests",
            dependencies: [
                "Forebay", "ForebayWire", "Streams", "Server", "Core", "EventLoop", "Client", "pacer", "forebayd",
                "TLS",
                "TestCertificates", "ticker", "slow-consumer", "pausable-view", "pipeline",
            ],
            exclude: ["Races"], swiftSettings: strict),
        .executableTarget(
            name: "pacer", dependencies: ["Forebay", "Streams"], path: "Tests/Pacer", swiftSettings: strict),
        .testTarget(name: "MeasureTests", dependencies: ["Measure"], swiftSettings: strict),
        .testTarget(name: "ManualTests", dependencies: ["Manual"], swiftSettings: strict),
        .testTarget(name: "BenchTests", dependencies: ["Bench", "RSocket", "Bytes"], swiftSettings: strict),
        fuzz,
    ],
    swiftLanguageModes: [.v6]
)
