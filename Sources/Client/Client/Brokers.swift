// Brokers: the brokers that a client may use, and which one to try next. No I/O.
//
//     current ──fail()──► the next one, at once ──fail()──► … ──all have failed──► the caller waits, then goes on

/// The addresses of one or more brokers, tried in a circle.
public struct Brokers: Sendable {
    /// At least one.
    public let addresses: [BrokerAddress]
    private var place = 0
    /// What failed since the last success or the last wait, each at another broker.
    private var failed: [(address: BrokerAddress, error: ClientError)] = []

    /// How long one attempt to connect may take if there are several brokers, in nanoseconds.
    public static let attemptTime: UInt64 = 3_000_000_000

    /// - Parameter addresses: at least one; the first is tried first.
    public init(_ addresses: [BrokerAddress]) {
        precondition(!addresses.isEmpty, "A client needs the address of a broker.")
        self.addresses = addresses
    }

    /// The broker to connect to, or to which the client is connected.
    public var current: BrokerAddress { addresses[place] }
    /// Whether there is only one.
    public var isSingle: Bool { addresses.count == 1 }

    /// Notes that the current broker serves the client: all are tried again before the next wait.
    public mutating func succeed() { failed = [] }

    /// Goes on to the next broker, because the connection to the current one was lost or not established, or it cannot
    /// serve the client.
    /// - Returns: whether to try the next one at once. If not, all have failed, or would fail in the same way.
    public mutating func fail(_ error: ClientError) -> Bool {
        if failed.count == addresses.count { failed = [] }
        failed.append((current, error))
        place = (place + 1) % addresses.count
        return failed.count < addresses.count && !error.concernsAllBrokers
    }

    /// The errors since the last success or the last wait.
    public var errors: [ClientError] { failed.map(\.error) }

    /// These errors as one that names each address. There must be at least one.
    public var failure: ClientError {
        let last = failed[failed.count - 1].error
        if failed.count == 1 && isSingle || last.concernsAllBrokers { return last }
        let isAlike = failed.allSatisfy { $0.error.code == last.code }
        return ClientError(
            isAlike ? last.code : .notConnected,
            failed.map { message(of: $0.error, at: $0.address) }.joined(separator: " "))
    }

    /// The error's message, which names the broker if there are several.
    public func message(of error: ClientError, at address: BrokerAddress) -> String {
        isSingle || error.message.contains("\(address)") ? error.message : "\(address): \(error.message)"
    }
}

extension BrokerAddress {
    /// Parses one or more URLs, separated by commas.
    /// - Throws: `.badURL`, as for one URL.
    public static func list(_ urls: String) throws(ClientError) -> [BrokerAddress] {
        var addresses: [BrokerAddress] = []
        for url in urls.split(separator: ",", omittingEmptySubsequences: false) {
            addresses.append(try BrokerAddress(url: String(url)))
        }
        return addresses
    }
}
