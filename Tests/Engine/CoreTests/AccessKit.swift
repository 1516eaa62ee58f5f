// What tests of logins and permissions share: tables of users, and clients with credentials.

import Bytes
import HTTP2
import RSocket

@testable import Core

func topics(_ patterns: String...) -> TopicSet {
    TopicSet(patterns.map { try! TopicPattern(parsing: $0) })
}

extension AccessTable {
    /// Users with these permissions and a password whose hash is the user's name.
    static func users(_ users: [String: Permissions], anonymous: Permissions? = nil) -> AccessTable {
        AccessTable(
            users: users.sorted { $0.key < $1.key }.map {
                User(name: $0.key, password: "hash-\($0.key)", certificate: "CN=\($0.key)", permissions: $0.value)
            }, anonymous: anonymous, keys: ["key"])
    }
}

extension LoginOutcome {
    /// The result that an authenticator would return.
    static func user(_ name: String, of table: AccessTable, expires: Int64? = nil) -> LoginOutcome {
        .accepted(
            Principal(
                user: name, permissions: table.user(name)!.permissions, proof: .password("hash-\(name)"),
                expires: expires))
    }
}

extension TestBroker {
    /// A client that has sent SETUP with a name and a password, or with a token.
    func greet(
        _ shard: Int = 0, user: String? = nil, password: String = "secret", token: String? = nil
    ) -> TestClient {
        let client = TestClient(self, shard)
        var setup = SetupRequest()
        setup.metadataMime = MimeType.compositeMetadata
        setup.lifetime = 600_000
        var metadata = ByteBuffer()
        if let user { AuthenticationMetadata.appendSimple(user: user, password: Array(password.utf8), into: &metadata) }
        if let token { AuthenticationMetadata.appendBearer(Array(token.utf8), into: &metadata) }
        client.send { FrameWriter.setup(setup, metadata: metadata.isEmpty ? nil : metadata.readable, into: &$0) }
        return client
    }

    /// A client that is logged in as `user`, and sends plain-text routes as composite metadata.
    func logIn(_ user: String, of table: AccessTable, shard: Int = 0, expires: Int64? = nil) -> TestClient {
        let client = TestClient(self, shard)
        // A metadata format that carries only credentials, so that routes are plain text.
        var setup = SetupRequest()
        setup.metadataMime = MimeType.authentication
        setup.lifetime = 600_000
        var metadata = ByteBuffer()
        metadata.append([0x80, 0, UInt8(user.utf8.count)] + Array(user.utf8) + Array("secret".utf8))
        client.send { FrameWriter.setup(setup, metadata: metadata.readable, into: &$0) }
        answerLogin(.user(user, of: table, expires: expires))
        return client
    }
}
