// TestCertificates: a self-signed certificate, made by openssl when a test first needs it.

import Foundation

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
        let openssl = Process()
        openssl.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
        openssl.arguments = [
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
            "/O=Tests/CN=\(name)", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out",
            certificate,
        ]
        openssl.standardError = FileHandle.nullDevice
        try openssl.run()
        openssl.waitUntilExit()
        guard openssl.terminationStatus == 0 else { throw Failed() }
        let path = folder.path
        paths.append(path)
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
