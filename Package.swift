// swift-tools-version: 6.2
import PackageDescription

// Sources and tests are in folders by layer. A layer uses those listed before it: System, Wire, Engine, Peers, Broker.
// Client uses System, Wire and Streams; Streams uses Wire and Replay; Tools measure and simulate, and may use all.
//
// `make build` passes --explicit-target-dependency-import-check error: importing a module that is not declared here is
// an error.

let strict: [SwiftSetting] = [.treatAllWarnings(as: .error)]

// On the path of every read and write, a third of the instructions were run-time exclusivity checks for fields of
// objects that only one thread ever uses. Debug builds, such as those of `make swift-test`, keep the checks.
let hot: [SwiftSetting] =
    strict + [.unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))]

let warnings: [CSetting] = [.unsafeFlags(["-Wall", "-Wextra", "-Werror"])]

/// The targets of a layer. Each is in its own folder, `Sources/LAYER/TARGET`.
struct Layer {
    var name: String

    func module(
        _ target: String, _ dependencies: [Target.Dependency] = [], _ settings: [SwiftSetting] = strict
    ) -> Target {
        .target(name: target, dependencies: dependencies, path: "Sources/\(name)/\(target)", swiftSettings: settings)
    }

    func program(_ target: String, _ dependencies: [Target.Dependency]) -> Target {
        .executableTarget(
            name: target, dependencies: dependencies, path: "Sources/\(name)/\(target)", swiftSettings: strict)
    }

    /// A C module of this project.
    func c(_ target: String, exclude: [String] = [], _ settings: [CSetting] = warnings) -> Target {
        .target(name: target, path: "Sources/\(name)/\(target)", exclude: exclude, cSettings: settings)
    }

    /// A system library.
    func library(_ target: String, _ pkgConfig: String?, _ package: String) -> Target {
        .systemLibrary(
            name: target, path: "Sources/\(name)/\(target)", pkgConfig: pkgConfig, providers: [.apt([package])])
    }

    /// The tests of a module, in `Tests/LAYER`.
    func tests(of module: String, _ dependencies: [Target.Dependency] = [], exclude: [String] = []) -> Target {
        .testTarget(
            name: module + "Tests", dependencies: [.byName(name: module)] + dependencies,
            path: "Tests/\(name)/\(module)Tests", exclude: exclude, swiftSettings: strict)
    }
}

// The operating system and C libraries

let system = Layer(name: "System")
let systemTargets = [
    system.c("CLinux"),
    system.library("COpenSSL", "openssl", "libssl-dev"),
    system.library("CNGHTTP2", "libnghttp2", "libnghttp2-dev"),
    system.library("CCrypt", "libcrypt", "libcrypt-dev"),
    system.library("CJansson", "jansson", "libjansson-dev"),
    system.library("CYAML", nil, "libyaml-dev"),
    system.library("CMicroHTTPD", "libmicrohttpd", "libmicrohttpd-dev"),
    system.library("CLMDB", "lmdb", "liblmdb-dev"),
    system.library("CISAL", "libisal", "libisal-dev"),
    system.c("CStoreIO"),
    system.module("Bytes"),
    system.module("JSONParsing", ["CJansson"]),
    system.module("EventLoop", ["CLinux"]),
    system.module("TLS", ["COpenSSL", "EventLoop"], hot),
    system.tests(of: "Bytes"),
    system.tests(of: "EventLoop"),
    system.tests(of: "TLS", ["EventLoop", "TestCertificates"]),
]

// The protocols without I/O, for both ends

let wire = Layer(name: "Wire")
let wireTargets = [
    wire.module("ForebayWire", ["Bytes"]),
    wire.module("RSocket", ["Bytes", "ForebayWire"]),
    wire.module("HTTP2", ["CNGHTTP2", "Bytes", "ForebayWire", "RSocket"], hot),
    wire.module("NATS", ["JSONParsing", "COpenSSL", "Bytes", "ForebayWire"]),
    wire.module("JetStream", ["NATS", "JSONParsing", "Bytes", "ForebayWire"]),
    wire.tests(of: "ForebayWire"),
    wire.tests(of: "RSocket", ["Bytes"]),
    wire.tests(of: "HTTP2", ["HTTP2Frames", "CNGHTTP2", "Bytes", "ForebayWire", "RSocket", "CAllocations"]),
    wire.tests(of: "NATS", ["Bytes", "CAllocations", "ForebayWire"]),
    wire.tests(of: "JetStream", ["Bytes", "CAllocations", "ForebayWire", "NATS"]),
]

// The broker without I/O

let engine = Layer(name: "Engine")
let engineTargets = [
    engine.module("Replay", ["ForebayWire"]),
    // Engine and peers are one module, because accessing an object's field across modules costs 16 to 22 ns. `make
    // lint` keeps them apart.
    .target(
        name: "Core", dependencies: ["JSONParsing", "Bytes", "ForebayWire", "Replay", "RSocket", "HTTP2"],
        path: "Sources",
        exclude: ["System", "Wire", "Engine/Replay", "Engine/Upstream", "Broker", "Streams", "Client", "Tools"],
        sources: ["Engine/Core", "Peers"], swiftSettings: hot),
    engine.module("Upstream", ["Bytes", "COpenSSL", "Core", "JetStream", "NATS", "Replay"], hot),
    engine.tests(of: "Replay", ["ForebayWire"]),
    engine.tests(of: "Upstream", ["Bytes", "Core", "JetStreamModel", "NATS", "Replay"]),
    engine.tests(
        of: "Core",
        ["ForebayWire", "RSocket", "HTTP2", "HTTP2Frames", "CNGHTTP2", "Bytes", "Replay", "CAllocations"]),
]

// The broker as a process

let broker = Layer(name: "Broker")
let brokerTargets = [
    broker.module("Access", ["Bytes", "Core", "CCrypt", "JSONParsing", "COpenSSL"]),
    broker.module("Configuration", ["CYAML"]),
    broker.module("Store", ["Bytes", "CISAL", "CLMDB", "CStoreIO", "EventLoop"], hot),
    broker.c(
        "CAdminPage",
        exclude: ["index.html", "style.css", "script.js", "kit.js", "tables.js", "tail.js", "icon.svg"],
        [.unsafeFlags(["-Wall", "-Wextra", "-Werror", "-Wno-c23-extensions"])]),
    broker.module(
        "Server",
        [
            "Access", "Bytes", "CAdminPage", "CLinux", "CMicroHTTPD", "Configuration", "Core", "EventLoop",
            "ForebayWire", "HTTP2", "Manual", "NATS", "Replay", "Store", "TLS", "Upstream",
        ], hot),
    broker.program("forebayd", ["Server"]),
    broker.tests(of: "Access", ["Core"]),
    broker.tests(of: "Configuration"),
    broker.tests(of: "Store", ["CStoreIO", "EventLoop", "store-exerciser"]),
    broker.tests(
        of: "Server", ["Access", "Configuration", "Core", "HTTP2", "EventLoop", "TLS", "TestCertificates"]),
]

// Streams for Swift on Linux

let streams = Layer(name: "Streams")
let streamsTargets = [
    streams.module("StreamsCore", ["ForebayWire", "Replay"]),
    streams.module("Streams", ["StreamsCore"]),
    streams.module("StreamsTestSupport", ["StreamsCore"]),
    streams.tests(of: "Streams", ["StreamsCore", "StreamsTestSupport"]),
]

// Connections, the client library and the command line

let client = Layer(name: "Client")
let clientTargets = [
    client.module("Client", ["Bytes", "ForebayWire", "RSocket", "HTTP2", "EventLoop", "CLinux", "TLS"]),
    client.module("Forebay", ["StreamsCore", "Client", "EventLoop", "ForebayWire", "RSocket", "Bytes", "TLS"]),
    client.program(
        "forebay", ["Client", "ForebayWire", "RSocket", "EventLoop", "Bytes", "Measure", "Manual", "TLS"]),
    client.tests(
        of: "Client", ["ForebayWire", "forebay", "RSocket", "HTTP2", "CNGHTTP2", "EventLoop", "Bytes", "TLS"]),
    client.tests(
        of: "Forebay",
        [
            "ForebayWire", "Streams", "Server", "Core", "EventLoop", "Client", "pacer", "forebayd", "TLS",
            "TestCertificates", "ticker", "slow-consumer", "pausable-view", "pipeline",
        ], exclude: ["Races"]),
]

// Manuals, measurements and the simulator

let tools = Layer(name: "Tools")
let toolsTargets = [
    tools.module("Manual"),
    tools.module("Measure"),
    tools.c("CBench"),
    tools.program("Bench", ["CBench", "CLMDB", "RSocket", "EventLoop", "Bytes", "Measure", "Streams", "Forebay"]),
    tools.module(
        "Simulator",
        [
            "Core", "ForebayWire", "RSocket", "HTTP2", "HTTP2Frames", "Replay", "Bytes", "CAllocations",
            "JetStreamModel",
            "NATS", "Upstream",
        ]),
    tools.program("forebay-sim", ["Simulator"]),
    tools.module("JetStreamModel", ["Bytes", "JSONParsing"]),
    tools.tests(of: "Manual"),
    tools.tests(of: "Measure"),
    tools.tests(of: "Bench", ["RSocket", "Bytes"]),
    tools.tests(of: "Simulator", exclude: ["seeds.txt"]),
    tools.tests(of: "JetStreamModel", exclude: ["capture.py", "captures.txt"]),
]

// Examples and test support

func example(_ name: String, _ folder: String, _ dependencies: [Target.Dependency] = ["Forebay", "Streams"]) -> Target {
    .executableTarget(name: name, dependencies: dependencies, path: folder, swiftSettings: strict)
}

// The fuzzers. In ordinary builds they are tests that replay the stored inputs. With FOREBAY_FUZZ set they are a
// program driven by libFuzzer, which `make fuzz` builds.
let fuzzed: [Target.Dependency] = [
    "Access", "Bytes", "Client", "Configuration", "Core", "ForebayWire", "HTTP2", "HTTP2Frames", "JSONParsing", "NATS",
    "Replay", "RSocket", "Server", "Upstream",
]
let fuzz: Target =
    Context.environment["FOREBAY_FUZZ"] == nil
    ? .testTarget(
        name: "FuzzTests", dependencies: fuzzed, path: "Tests/Fuzz",
        exclude: ["Driver", "corpus", "dictionaries", "regressions"], swiftSettings: strict)
    : .executableTarget(
        name: "fuzz", dependencies: fuzzed, path: "Tests/Fuzz",
        exclude: ["Replay", "corpus", "dictionaries", "regressions"], swiftSettings: strict)

let support: [Target] = [
    example("ticker", "Examples/Ticker"),
    example("slow-consumer", "Examples/SlowConsumer", ["Forebay"]),
    example("pausable-view", "Examples/PausableView"),
    example("pipeline", "Examples/Pipeline"),
    example("pacer", "Tests/Support/Pacer"),
    example("library-client", "Tests/Support/LibraryClient", ["EventLoop", "Forebay", "Streams"]),
    example("store-exerciser", "Tests/Support/StoreExerciser", ["CStoreIO", "EventLoop", "Store"]),
    example("nats-exerciser", "Tests/Support/NATSExerciser", ["Bytes", "EventLoop", "NATS", "TLS"]),
    .target(name: "CAllocations", path: "Tests/Support/CAllocations"),
    .target(
        name: "HTTP2Frames", dependencies: ["CNGHTTP2", "Bytes"], path: "Tests/Support/HTTP2Frames",
        swiftSettings: strict),
    .target(name: "TestCertificates", path: "Tests/Support/TestCertificates", swiftSettings: strict),
    .executableTarget(
        name: "Budget", dependencies: ["Core", "RSocket", "Bytes", "CAllocations", "HTTP2Frames"],
        path: "Tests/Budget", exclude: ["costs.txt", "figures.txt"], swiftSettings: hot),
    fuzz,
]

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
    targets: systemTargets + wireTargets + engineTargets + brokerTargets + streamsTargets + clientTargets + toolsTargets
        + support,
    swiftLanguageModes: [.v6]
)
