// TestCertificates: a self-signed certificate, made by openssl when a test first needs it.

import Foundation
import Glibc

/// PEM files that exist until the process ends.
public struct TestCertificate: Sendable {
    public let certificate: String
    public let key: String

    /// A certificate for localhost and 127.0.0.1.
    public static let local = Result { try TestCertificate("localhost") }
    /// Another certificate for the same names.
    public static let other = Result { try TestCertificate("other") }

    struct Failed: Error {}

    private init(_ name: String) throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("forebay-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        certificate = folder.appendingPathComponent("\(name).pem").path
        key = folder.appendingPathComponent("\(name).key").path
        let isMade = TestCertificate.run([
            "/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", "2", "-subj", "/O=Tests/CN=\(name)", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-keyout", key, "-out", certificate,
        ])
        guard isMade else { throw Failed() }
        let path = folder.path
        paths.append(path)
    }

    /// Runs a program and returns whether it succeeded. Foundation's `Process` lists the open files of this process,
    /// and sometimes reads beyond the end of a directory entry.
    private static func run(_ command: [String]) -> Bool {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)
        let arguments = command.map { strdup($0) }
        defer { for argument in arguments { free(argument) } }
        var pid: pid_t = 0
        guard posix_spawn(&pid, command[0], &actions, nil, arguments + [nil], nil) == 0 else { return false }
        var status: Int32 = 0
        while waitpid(pid, &status, 0) < 0 { guard errno == EINTR else { return false } }
        return status == 0
    }
}

/// The files are removed at the end of the process.
private let paths = Paths()

private final class Paths: @unchecked Sendable {
    private let lock = NSLock()
    private var all: [String] = []

    init() {
        atexit { paths.removeAll() }
    }

    func append(_ path: String) { lock.withLock { all.append(path) } }

    func removeAll() {
        for path in lock.withLock({ all }) { try? FileManager.default.removeItem(atPath: path) }
    }
}
