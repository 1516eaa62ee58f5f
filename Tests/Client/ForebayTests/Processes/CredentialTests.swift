// Credentials that a broker refuses, when a client connects and when it reconnects.

import Foundation
import Streams
import Testing

@testable import Forebay

@Suite(.serialized) struct CredentialTests {
    /// Writes a broker's configuration file, with one user who has this token.
    private static func configure(_ file: URL, token: String) throws {
        let digest = try #require(digests[token])
        let text = "users: [{name: alice, token: \"sha256:\(digest)\", publish: [\">\"], subscribe: [\">\"]}]\n"
        try Data(text.utf8).write(to: file)
    }

    /// From `sha256sum`.
    private static let digests = [
        "opensesame": "d9fb92e3bbe65be1f1aad4a82eef4567f7a1ebe2cd110c8049b9698be7a70c88",
        "another": "ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5",
    ]

    private static func options(_ token: String?) -> ForebayOptions {
        var options = quick
        options.credentials = token.map { .token($0) }
        return options
    }

    /// Over HTTP, where each request carries the credentials, the client formerly connected, and its first request
    /// failed.
    @Test(arguments: Wire.allCases) func whatTheBrokerDoesNotTakeIsToldByConnecting(_ wire: Wire) async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "forebay-\(UUID().uuidString).yaml")
        defer { try? FileManager.default.removeItem(at: file) }
        try Self.configure(file, token: "opensesame")
        let broker = try Daemon(["--config", file.path])
        defer { broker.kill() }
        try await within {
            for (token, words) in [
                ("another", "unauthenticated: The credentials are wrong"),
                (nil, "unauthenticated: This broker requires credentials"),
            ] {
                let failure = await error { _ = try await ForebayClient.connect(broker.url(wire), Self.options(token)) }
                #expect(failure?.code == .refused && failure?.message.contains(words) == true, "\(failure as Any)")
            }
            let client = try await ForebayClient.connect(broker.url(wire), Self.options("opensesame"))
            try await client.topic("t").publish("x")
            await client.close()
        }
    }

    /// Formerly the client reconnected again and again, and requests in progress waited forever.
    @Test(arguments: Wire.allCases) func whatTheBrokerTakesNoMoreEndsTheClient(_ wire: Wire) async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "forebay-\(UUID().uuidString).yaml")
        defer { try? FileManager.default.removeItem(at: file) }
        try Self.configure(file, token: "opensesame")
        let broker = try Daemon(["--config", file.path])
        defer { broker.kill() }
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire), Self.options("opensesame"))
            let messages = try await client.topic("t").messages().subscribed()
            broker.kill()
            try Self.configure(file, token: "another")
            try broker.start()
            #expect(await error { for try await _ in messages {} }?.code == .refused)
            #expect(await error { try await client.topic("t").publish("x") }?.code == .refused)
            guard case .closed(let why) = client.state else {
                Issue.record("\(client.state)")
                return
            }
            #expect(why.message.contains("unauthenticated: The credentials are wrong"))
            await client.close()
        }
    }
}
