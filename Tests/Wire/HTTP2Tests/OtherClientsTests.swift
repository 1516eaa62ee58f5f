// A session tested with independent clients: curl, nghttp, h2load.

import Foundation
import HTTP2Frames
import Testing

@testable import HTTP2

@Suite(.serialized) struct OtherClientsTests {
    /// Runs a command with the server's address in place of `URL`, and returns its output.
    private func run(
        _ command: String..., checkingServer: Bool = true, location: SourceLocation = #_sourceLocation
    ) throws -> String {
        let server = LoopbackServer()
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments =
            ["timeout", "30"] + command.map { $0.replacing("URL", with: "http://127.0.0.1:\(server.port)") }
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        server.stop()
        let text = String(decoding: output, as: UTF8.self)
        #expect(process.terminationStatus == 0, "\(text)", sourceLocation: location)
        #expect(server.fatal == [], sourceLocation: location)
        return text
    }

    @Test func curlGets() throws {
        let text = try run("curl", "-sS", "--http2-prior-knowledge", "-D", "-", "URL/1000000")
        #expect(text.hasPrefix("HTTP/2 200"))
        #expect(text.contains("x-length: 1000000"))
        #expect(text.filter { $0 == "x" }.count >= 1_000_000)
    }

    @Test func curlPosts() throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("http2-\(getpid())")
        try Data(repeating: 1, count: 3_000_000).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let text = try run(
            "curl", "-sS", "--http2-prior-knowledge", "-D", "-", "-H", "expect:", "--data-binary", "@\(file.path)",
            "URL/")
        #expect(text.contains("x-posted: 3000000"), "\(text)")
    }

    @Test func nghttpSeesOurSettings() throws {
        let text = try run("nghttp", "-nv", "URL/100", "URL/200", "URL/300")
        #expect(text.contains("[SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1000]"), "\(text)")
        #expect(text.components(separatedBy: ":status: 200").count == 4, "\(text)")
        #expect(text.contains("x-length: 300"))
    }

    @Test func h2loadWithManyStreams() throws {
        let text = try run("h2load", "-n", "20000", "-c", "2", "-m", "100", "URL/300")
        #expect(text.contains("20000 succeeded, 0 failed"), "\(text)")
    }

    @Test func h2loadWithLargeBodies() throws {
        let text = try run("h2load", "-n", "100", "-c", "2", "-m", "20", "URL/300000")
        #expect(text.contains("100 succeeded, 0 failed"), "\(text)")
    }
}
