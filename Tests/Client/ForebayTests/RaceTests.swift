// Data races that must not compile. Comments in each file of Races name the expected compiler errors and their lines; a
// file without such comments must compile. The compiler itself compares them (`-verify`).

import Foundation
import Testing

@Suite("Data races do not compile", .serialized)
struct RaceTests {
    private static let tests = URL(filePath: #filePath).deletingLastPathComponent()
    private static let sources = tests.appending(path: "../../../Sources/System")
    /// The folder of the modules, next to the tests.
    private static let build = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()

    @Test(
        "errors are those that the comments name",
        arguments: ["Closures", "Subjects", "Promises", "Client", "Control", "Misuse"])
    func verified(name: String) async throws {
        let modules = ["CNGHTTP2", "COpenSSL"].map { Self.sources.appending(path: "\($0)/module.modulemap").path }
        let maps = modules + [Self.build.appending(path: "CLinux.build/module.modulemap").path]
        let compiler = try ChildProcess(
            "/usr/bin/env",
            ["swiftc", "-frontend", "-emit-sil", "-verify", "-verify-ignore-unrelated", "-swift-version", "6"]
                + ["-o", "/dev/null", Self.tests.appending(path: "Races/\(name).swift").path]
                + ["-I", Self.build.appending(path: "Modules").path]
                + maps.flatMap { ["-Xcc", "-fmodule-map-file=\($0)"] })
        var text = ""
        while let more = compiler.read() { text += more }
        #expect(try await compiler.end() == 0, "\(text)")
    }
}
