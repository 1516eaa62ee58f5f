// ForebayOptions: how a client connects and reconnects, and the limits on what it holds in memory.

import Client

/// The options of a client. All have defaults.
public struct ForebayOptions: Sendable {
    /// How a client reconnects.
    public var reconnect = ReconnectPolicy()

    /// Whether the client tries the brokers of a list in random order. Clients then spread over the nodes of a cluster,
    /// and over the remaining ones when a node stops. If false, the client tries them in the given order, so that the
    /// first is preferred at the start.
    public var shufflesBrokers = true

    /// Whether publishes that were not acknowledged before the connection was lost are repeated on the next connection.
    /// Messages then arrive at least once, and possibly twice. If false, these publishes fail with `.outcomeUnknown`
    /// instead: messages arrive at most once, and the program decides what to do.
    public var repeatsPublishes = true

    /// How long connecting may take after the name lookup, and then how long the broker's first response may take.
    public var connectTimeout = Duration.seconds(10)

    /// How long a connection may receive nothing, not even the response to a keepalive, before the client gives it up.
    /// A keepalive is sent after a third of this time, but not during a call to a subscriber: one call that takes this
    /// long loses the connection. At least 3 ms and at most 2³¹−1 ms; values outside are clamped.
    public var silence = Duration.seconds(30)

    /// Which certificates to trust and which to present over TLS (`rsockets://`, `https://`).
    public var tls = TLS()

    /// The credentials of the client, unless the URL contains them.
    public var credentials: Credentials?

    /// What the broker accepts to authenticate a user.
    public enum Credentials: Equatable, Sendable {
        /// A user in the broker's configuration, with its password.
        case password(user: String, password: String)
        /// A token in the broker's configuration, or a JWT.
        case token(String)
    }

    /// The limits on what the client holds.
    public var limits = Limits()

    /// How the client verifies the broker and identifies itself. Files are in PEM format and are read for each
    /// connection.
    public struct TLS: Equatable, Sendable {
        /// A file with the certificates of the trusted authorities; nil for the system's.
        public var authority: String?
        /// A file with the client's certificate; nil for none.
        public var certificate: String?
        /// A file with the certificate's private key; nil if the certificate file contains it.
        public var key: String?
        /// Whether the server's certificate is verified. If not, someone in between can read and change everything.
        public var verifies = true

        /// Trusts the system's authorities and presents no certificate.
        public init() {}

        /// Uses these files and verifies the broker.
        public init(authority: String?, certificate: String? = nil, key: String? = nil) {
            self.authority = authority
            self.certificate = certificate
            self.key = key
        }
    }

    /// The limits on what one client holds.
    public struct Limits: Sendable {
        /// Concurrent subscriptions and publishes; further ones fail with `.busy`. At most 1,024. Over HTTP,
        /// subscriptions and publications also fail with `.busy` when the broker's limit on streams per connection is
        /// reached, 1,000 by default, of which the client reserves 16. Connect more clients to go beyond this number.
        public var activities = 1024
        /// Bytes of single publishes in flight; further publishes fail with `.busy`, and a single larger publish with
        /// `.messageTooLarge`.
        public var publishedBytes = 64 << 20
        /// Bytes of one message, payload and metadata; a larger message fails its subscription. At least 1 KiB, at most
        /// 1 GiB.
        public var message = 32 << 20
        /// Bytes of output not yet accepted by the network. Above this, publications request nothing more from their
        /// publishers.
        public var output = 1 << 20

        /// The defaults.
        public init() {}
    }

    /// The defaults.
    public init() {}
}

extension ClientLimits {
    /// The limits of a connection.
    init(_ options: ForebayOptions) {
        self.init()
        // Responses to publishes are messages too.
        message = min(max(options.limits.message, 1 << 10), 1 << 30)
        reassembly = max(reassembly, message)
        streams += ClientLoop.reservedStreams
        // At most what RSocket's SETUP can express: 2³¹−1 milliseconds.
        lifetime = min(max(options.silence.nanoseconds, 3_000_000), 0x7fff_ffff * 1_000_000)
        keepaliveInterval = lifetime / 3
    }
}

extension Backoff {
    init(_ policy: ReconnectPolicy) {
        self.init(first: policy.first.nanoseconds, longest: policy.longest.nanoseconds, attempts: policy.attempts)
    }
}

/// When a client that has lost its connection tries again. The waits grow, and are randomized so that clients do not
/// all reconnect at once. With several brokers, the client tries the next one at once, and waits when all have failed.
public struct ReconnectPolicy: Equatable, Sendable {
    /// The longest wait before the first attempt, at least 1 ms.
    public var first = Duration.milliseconds(100)
    /// The upper limit of all waits. Each wait is twice the previous one until it reaches this limit.
    public var longest = Duration.seconds(10)
    /// Consecutive failed attempts after which the client gives up; nil to never give up. With several brokers, an
    /// attempt is one at each of them. In either case the client stops if a broker refuses its credentials, because
    /// they were changed or a token has expired.
    public var attempts: Int?

    /// A policy with the defaults.
    public init() {}

    /// A policy with these values.
    public init(first: Duration, longest: Duration, attempts: Int? = nil) {
        self.first = first
        self.longest = longest
        self.attempts = attempts
    }
}

extension Duration {
    /// Clamped to 64 bits; 0 if negative.
    var nanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        let (whole, isOver) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
        return isOver ? .max : whole.addingReportingOverflow(UInt64(attoseconds) / 1_000_000_000).partialValue
    }
}
