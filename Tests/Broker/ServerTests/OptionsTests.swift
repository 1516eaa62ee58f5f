// forebayd's command line: what is read, and how errors are reported.

import Core
import EventLoop
import Testing

@testable import Server

/// Serialized, because getopt keeps its state in global variables.
@Suite(.serialized) struct OptionsTests {
    private func invocation(_ line: String) throws(UsageError) -> Invocation {
        try Invocation.parse(["forebayd"] + line.split(separator: " ").map(String.init))
    }

    private func parse(_ line: String) throws(UsageError) -> Options {
        try Loader.load(nil, environment: [], settings: invocation(line).settings, checkFile: { _ in }).options
    }

    @Test func nothingGivenIsTheDefaults() throws {
        let options = Options()
        #expect(try parse("") == options)
        #expect(options.listen?.description == "127.0.0.1:7690")
        #expect(options.http?.description == "127.0.0.1:7691")
        #expect(options.limits.retain == 1024)
        #expect(options.limits.retainBytes == 16 << 20)
        #expect(options.threads == nil && options.memory == nil)
        #expect(options.logLevel == .info && options.logFormat == .text)
    }

    private static let accepted: [(String, @Sendable (inout Options) -> Void)] = [
        ("--listen [::1]:0", { $0.listen = Endpoint(host: "::1", port: 0) }),
        ("--listen=0.0.0.0:7", { $0.listen = Endpoint(host: "0.0.0.0", port: 7) }),
        ("--threads 1", { $0.threads = 1 }), ("--threads 256", { $0.threads = 256 }),
        ("--retain 1", { $0.limits.retain = 1 }), ("--retain 2147483647", { $0.limits.retain = 2_147_483_647 }),
        ("--retain-bytes 4096", { $0.limits.retainBytes = 4096 }),
        ("--retain-bytes 64k", { $0.limits.retainBytes = 64 << 10 }),
        ("--memory 16M", { $0.memory = 16 << 20 }), ("--memory 2GiB", { $0.memory = 2 << 30 }),
        ("--log-level debug", { $0.logLevel = .debug }), ("--log-level warn", { $0.logLevel = .warning }),
        ("--log-level error", { $0.logLevel = .error }), ("--log-format json", { $0.logFormat = .json }),
        ("--http [::1]:0", { $0.http = Endpoint(host: "::1", port: 0) }),
        ("--http off --admin off", { ($0.http, $0.admin) = (nil, nil) }),
        ("--admin 127.0.0.1:0", { $0.admin = Endpoint(host: "127.0.0.1", port: 0) }),
        ("--host-name Broker.local --host-name b", { $0.hostNames = .listed(["broker.local", "b"]) }),
        ("--host-name * --host-name c", { $0.hostNames = .any }), ("--listen off", { $0.listen = nil }),
        ("--http localhost:8", { $0.http = Endpoint(host: "localhost", port: 8) }),
        ("--listen 127.0.0.1:7691 --http off", { ($0.listen, $0.http) = ($0.http, nil) }),
        (
            "--listen a:0 --http a:0",
            { ($0.listen, $0.http) = (Endpoint(host: "a", port: 0), Endpoint(host: "a", port: 0)) }
        ),
        ("--allow-origin https://a.org", { $0.limits.http.cors.origins = .listed(["https://a.org"]) }),
        (
            "--allow-origin https://a.org --allow-origin http://[::1]:8080",
            { $0.limits.http.cors.origins = .listed(["https://a.org", "http://[::1]:8080"]) }
        ),
        ("--allow-origin http://a --allow-origin * --allow-origin http://b", { $0.limits.http.cors.origins = .any }),
        ("--threads auto --memory auto", { _ in }),
        ("--allow-anonymous", { $0.access.allowsAnonymous = true }),
    ]

    @Test(arguments: accepted)
    func reads(line: String, change: @Sendable (inout Options) -> Void) throws {
        var expected = Options()
        change(&expected)
        #expect(try parse(line) == expected)
    }

    @Test(arguments: [("-h", true), ("--help", true), ("--retain 5 -h", true), ("-V", false), ("--version", false)])
    func helpAndVersion(line: String, help: Bool) throws {
        #expect(try invocation(line).action == (help ? .help : .version))
    }

    @Test(arguments: [
        ("--listen 7690", "--listen 7690 is not an address: write HOST:PORT"),
        ("--listen off --http off", "--listen off and --http off leave nothing to listen on"),
        ("--http 7691", "--http 7691 is not an address: write HOST:PORT"), ("--http", "--http needs a value"),
        ("--listen 127.0.0.1:7691", "--listen 127.0.0.1:7691 and --http 127.0.0.1:7691 are the same"),
        ("--listen", "--listen needs a value"), ("--threads 0", "--threads 0 is not a number from 1 to 256"),
        ("--threads many", "--threads many is not a number"), ("--threads 257", "from 1 to 256"),
        ("--retain 0", "--retain 0 is not a number from 1 to 2147483647"),
        ("--retain -1", "--retain -1 is not a number"),
        ("--retain-bytes 4095", "from 4K to 1024G"), ("--retain-bytes 5X", "--retain-bytes 5X is not a size"),
        ("--memory 1K", "--memory 1K is not a size from 16M to"), ("--memory 99999999999G", "is not a size"),
        ("--allow-origin https://a.org/", "is not an origin"), ("--allow-origin a.org", "is not an origin"),
        ("--allow-origin null", "is not an origin"), ("--allow-origin https://A.org", "is not an origin"),
        ("--allow-origin http://", "is not an origin"), ("--allow-origin", "--allow-origin needs a value"),
        ("--allow-origin https://a.org:443", "is not an origin"),
        ("--allow-origin http://[::1]:80", "is not an origin"),
        (String(repeating: "--allow-origin http://a ", count: 65), "has 65 elements; write at most 64"),
        ("--log-level loud", "not one of debug, info, warn, error"), ("--log-format xml", "is not one of text, json"),
        ("--admin 7692", "is not an address"),
        ("--host-name a:80", "is not a host name: write it without a port"), ("-c", "-c needs a value"),
        ("-c a --config b", "given twice"),
        ("--threads 2 --threads 3", "--threads is given twice, 2 and 3"),
        ("--listen a:1 --listen b:2", "--listen is given twice, a:1 and b:2; give it once"),
        ("--topics x", "unknown option --topics"), ("--users x", "unknown option --users"),
        ("--unheard", "unknown option --unheard"), ("-x", "unknown option -x"), ("-tx", "unknown option -x"),
        ("extra", "unexpected argument \"extra\""),
        ("--retain 5 extra more", "unexpected argument \"extra\""),
        ("-- --retain", "unexpected argument \"--retain\""), ("--version=2", "--version=2 takes no value"),
    ])
    func refuses(line: String, why: String) {
        do throws(UsageError) {
            let options = try parse(line)
            Issue.record("\(line) was read as \(options)")
        } catch {
            #expect(error.description.contains(why), "\(error)")
        }
    }

    @Test func commandsOfTheStoreAreRead() throws {
        #expect(try invocation("store info --store d").action == .store(.info))
        #expect(try invocation("store info --store d").settings.map(\.name) == ["store"])
        #expect(try invocation("--store d store check").action == .store(.check))
        #expect(try invocation("store copy /b").action == .store(.copy(to: "/b")))
        var options = DumpOptions()
        #expect(try invocation("store dump a").action == .store(.dump(topic: "a", options)))
        try options.set("from", "18446744073709551615")
        try options.set("format", "json")
        let both = "store dump --from 18446744073709551615 a --format=json"
        #expect(try invocation(both).action == .store(.dump(topic: "a", options)))
    }

    @Test(arguments: [
        ("store", "forebayd store needs a command; write store info, check, dump TOPIC or copy DIR"),
        ("store show", "unknown command store show; write store info"), ("sotre info", "unexpected argument \"sotre\""),
        ("store dump", "forebayd store dump needs an argument: forebayd store dump TOPIC"),
        ("store copy", "forebayd store copy needs an argument: forebayd store copy DIR"),
        ("store copy a b", "unexpected argument \"b\" after forebayd store copy"),
        ("store info a", "unexpected argument \"a\" after forebayd store info"),
        ("store check --from 1", "--from belongs to forebayd store dump"), ("--from 1", "--from belongs to forebayd"),
        ("store dump a --from -1", "--from -1 is not a sequence number"),
        ("store dump a --from +1", "--from +1 is not a sequence number"),
        ("store dump a --format xml", "--format xml is not text or json"),
        ("store dump a --from 1 --from 2", "--from is given twice"), ("-t store info", "unexpected argument \"store\""),
    ])
    func faultsInCommandsAreExplained(_ line: String, _ why: String) {
        do throws(UsageError) {
            Issue.record("\(line) was read as \(try invocation(line).action)")
        } catch {
            #expect(error.description.hasPrefix(why), "\(error)")
        }
    }

    @Test(arguments: [
        (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1588, "1.6 KiB"), (10 << 30, "10.0 GiB"),
        (1 << 50, "1024.0 TiB"), (UInt64(1) << 20 - 1, "1024.0 KiB"), (1 << 20, "1.0 MiB"),
    ])
    func sizesAreForPeople(_ bytes: UInt64, _ text: String) { #expect(StoreTool.size(bytes) == text) }

    @Test func usageErrorsExitWith2AndHelpWith0() {
        #expect(Broker.run(["forebayd", "-h"]) == 0)
        #expect(Broker.run([]) == 1)
        #expect(Broker.run(["forebayd", "-V"]) == 0)
        #expect(Broker.run(["forebayd", "--admin", "1"]) == 2)
        #expect(Broker.run(["forebayd", "--listen", "off", "--http", "off"]) == 2)
    }

    @Test func theHelpNamesEveryOption() {
        for setting in Setting.all {
            #expect(usage.contains(setting.isRecords ? setting.name : "\n  \(setting.option)"), "\(setting.name)")
        }
        for option in ["--config", "--test", "--print-config", "--version", "--help"] {
            #expect(usage.contains("  \(option) ") || usage.contains(", \(option) "), "\(option)")
        }
        for line in usage.split(separator: "\n") { #expect(line.count <= 100, "\(line)") }
    }
}
