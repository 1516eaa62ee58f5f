// TLSContext: what all connections of one side share: certificate and key, trusted authorities, and the TLS versions
// and ciphers.

import COpenSSL

/// Whether a server requests its clients' certificates.
public enum ClientVerification: String, CaseIterable, Sendable {
    case off
    /// A certificate that is presented must be trusted, but clients need not present one.
    case optional
    case required
}

/// The files of a server's certificate and key, in PEM.
public struct TLSServerSettings: Equatable, Sendable {
    /// The certificate, followed by the intermediate certificates up to its CA.
    public var certificate: String
    public var key: String
    /// CA certificates that clients' certificates must be issued by. May be nil only with `off`.
    public var clientAuthority: String?
    public var verification: ClientVerification
    /// Whether the kernel encrypts if it can.
    public var usesKernel: Bool

    public init(
        certificate: String, key: String, clientAuthority: String? = nil, verification: ClientVerification = .off,
        usesKernel: Bool = false
    ) {
        precondition(clientAuthority != nil || verification == .off)
        self.certificate = certificate
        self.key = key
        self.clientAuthority = clientAuthority
        self.verification = verification
        self.usesKernel = usesKernel
    }
}

/// How a client verifies a server and authenticates itself.
public struct TLSClientSettings: Equatable, Hashable, Sendable {
    /// A file with CA certificates, in PEM; nil for those that the system trusts.
    public var authority: String?
    /// Files with the client's certificate and key, in PEM; nil for none. Both may be in one file.
    public var certificate: String?
    public var key: String?
    /// Whether the server's certificate is verified. If not, a man in the middle can read and change everything.
    public var verifies = true

    public init() {}
}

/// Immutable, so that threads can share it.
public final class TLSContext: @unchecked Sendable {
    let handle: OpaquePointer

    /// The most bytes in a peer's certificate chain, and its greatest depth.
    private static let certificatesLimit = 64 << 10
    private static let depthLimit: Int32 = 8

    private init(_ method: OpaquePointer?, usesKernel: Bool) throws(TLSError) {
        ERR_clear_error()
        guard let handle = SSL_CTX_new(method) else { throw TLSContext.failure() }
        self.handle = handle
        guard fb_tls_prepare(handle, usesKernel ? 1 : 0) == 1 else { throw TLSContext.failure() }
        SSL_CTX_set_default_passwd_cb(handle, fb_tls_no_phrase)
        SSL_CTX_set_verify_depth(handle, TLSContext.depthLimit)
        _ = SSL_CTX_ctrl(handle, SSL_CTRL_SET_MAX_CERT_LIST, TLSContext.certificatesLimit, nil)
    }

    deinit { SSL_CTX_free(handle) }

    /// The validity of this side's certificate; nil if it has none.
    var validity: TLSValidity? { SSL_CTX_get0_certificate(handle).map { TLSValidity($0) } }

    /// Reads a server's files.
    public convenience init(_ settings: TLSServerSettings) throws(TLSError) {
        try self.init(TLS_server_method(), usesKernel: settings.usesKernel)
        try use(certificate: settings.certificate, key: settings.key)
        fb_tls_limit_sessions(handle, settings.verification == .off ? 1 : 0)
        SSL_CTX_set_alpn_select_cb(handle, fb_tls_choose, nil)
        guard let authority = settings.clientAuthority, settings.verification != .off else { return }
        try trust(authority)
        SSL_CTX_set_client_CA_list(handle, SSL_load_client_CA_file(authority))
        let required = settings.verification == .required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0
        SSL_CTX_set_verify(handle, SSL_VERIFY_PEER | required, nil)
    }

    /// Reads a client's files.
    public convenience init(_ settings: TLSClientSettings) throws(TLSError) {
        try self.init(TLS_client_method(), usesKernel: false)
        if let certificate = settings.certificate {
            try use(certificate: certificate, key: settings.key ?? certificate)
        }
        guard settings.verifies else { return }
        if let authority = settings.authority {
            try trust(authority)
        } else {
            SSL_CTX_set_default_verify_paths(handle)
        }
        SSL_CTX_set_verify(handle, SSL_VERIFY_PEER, nil)
    }

    private func use(certificate: String, key: String) throws(TLSError) {
        try TLSError.check(certificate, "certificate")
        try TLSError.check(key, "key")
        ERR_clear_error()
        guard SSL_CTX_use_certificate_chain_file(handle, certificate) == 1 else {
            let why = TLSContext.why("it has none in PEM")
            throw TLSError(.badCertificate, "\(certificate) has no usable certificate: \(why)")
        }
        guard SSL_CTX_use_PrivateKey_file(handle, key, SSL_FILETYPE_PEM) == 1 else {
            if ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH { throw mismatch(certificate, key) }
            let why = TLSContext.why("it has none in PEM")
            throw TLSError(.badKey, "\(key) has no usable private key: \(why)")
        }
        guard SSL_CTX_check_private_key(handle) == 1 else { throw mismatch(certificate, key) }
    }

    private func mismatch(_ certificate: String, _ key: String) -> TLSError {
        ERR_clear_error()
        return TLSError(.mismatch, "the key in \(key) does not match the certificate in \(certificate)")
    }

    private func trust(_ authority: String) throws(TLSError) {
        try TLSError.check(authority, "certificate authorities in")
        ERR_clear_error()
        guard SSL_CTX_load_verify_locations(handle, authority, nil) == 1 else {
            let why = TLSContext.why("it has none in PEM")
            throw TLSError(.badAuthority, "\(authority) has no usable certificate: \(why)")
        }
    }

    /// OpenSSL's reason for rejecting a file, or our own text if its reason helps nobody.
    private static func why(_ nothingFound: String) -> String {
        switch TLSError.reason() {
        case nil, "unsupported", "no start line", "no certificate or crl found": nothingFound
        // Only `fb_tls_no_phrase` causes these two reasons.
        case "interrupted or cancelled", "bad password read": "it is encrypted; use one without a passphrase"
        case let reason?: reason
        }
    }

    private static func failure() -> TLSError {
        TLSError(.system, "cannot use OpenSSL: \(TLSError.reason() ?? "out of memory")")
    }
}
