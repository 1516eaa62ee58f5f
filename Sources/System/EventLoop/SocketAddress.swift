// Addresses: as people write them (host and port), and as the kernel uses them (an IPv4 or IPv6 address and port).

import CLinux
import Glibc

/// A host name or address and a port, written as "localhost:7690" or "[::1]:7690".
public struct Endpoint: Hashable, Sendable, CustomStringConvertible {
    public var host: String
    public var port: UInt16

    public init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    /// Parses "HOST:PORT". The description of a thrown error says what to write instead.
    public init(parsing text: String) throws(SystemError) {
        let attempt = "\"\(text)\" is not an address"
        guard let colon = text.utf8.lastIndex(of: UInt8(ascii: ":")) else {
            throw SystemError(attempt, cause: "write HOST:PORT, for example 127.0.0.1:7690")
        }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = String(host.dropFirst().dropLast())
        } else if host.utf8.contains(UInt8(ascii: ":")) {
            throw SystemError(attempt, cause: "put an IPv6 address in brackets, for example [::1]:7690")
        }
        if host.isEmpty {
            throw SystemError(attempt, cause: "the host is missing; 0.0.0.0 or [::] listens on every interface")
        }
        if host.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7F }) {
            throw SystemError(attempt, cause: "the host must not have spaces or control characters")
        }
        let digits = text[text.utf8.index(after: colon)...]
        guard digits.utf8.allSatisfy({ $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }),
            let port = UInt16(digits)
        else {
            throw SystemError(attempt, cause: "the port must be a number from 0 to 65535")
        }
        self.init(host: host, port: port)
    }

    public var description: String {
        host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    /// All addresses of the host, in the resolver's order of preference. If the host is a name, this blocks until the
    /// name servers reply.
    public func resolve() throws(SystemError) -> [SocketAddress] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let failure = getaddrinfo(host, String(port), &hints, &list)
        if failure != 0 {
            throw SystemError("cannot resolve \(host)", cause: String(cString: gai_strerror(failure)))
        }
        defer { freeaddrinfo(list) }
        var addresses: [SocketAddress] = []
        var next = list
        while let entry = next {
            if let address = SocketAddress(entry.pointee.ai_addr, length: entry.pointee.ai_addrlen) {
                addresses.append(address)
            }
            next = entry.pointee.ai_next
        }
        return addresses
    }
}

/// An IPv4 or IPv6 address with a port.
public struct SocketAddress: Sendable, CustomStringConvertible {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)

    init() {}

    init?(_ address: UnsafePointer<sockaddr>?, length: socklen_t) {
        guard let address, Int(length) <= MemoryLayout<sockaddr_storage>.size,
            [AF_INET, AF_INET6].contains(Int32(address.pointee.sa_family))
        else { return nil }
        withUnsafeMutableBytes(of: &storage) {
            $0.copyMemory(from: UnsafeRawBufferPointer(start: address, count: Int(length)))
        }
        self.length = length
    }

    var family: Int32 { Int32(storage.ss_family) }

    public var isIPv6: Bool { family == AF_INET6 }

    /// Whether the two have the same host address; their ports may differ.
    public func hasHost(of other: SocketAddress) -> Bool {
        var same = self
        same.port = other.port
        return same.description == other.description
    }

    /// Whether this is the wildcard address.
    public var isUnspecified: Bool {
        withUnsafeBytes(of: storage) { bytes in
            isIPv6 ? bytes[8..<24].allSatisfy { $0 == 0 } : bytes[4..<8].allSatisfy { $0 == 0 }
        }
    }

    public var port: UInt16 {
        // The port follows the family in both structures.
        get { UInt16(bigEndian: withUnsafeBytes(of: storage) { $0.load(fromByteOffset: 2, as: UInt16.self) }) }
        set {
            withUnsafeMutableBytes(of: &storage) {
                $0.storeBytes(of: newValue.bigEndian, toByteOffset: 2, as: UInt16.self)
            }
        }
    }

    /// Whether the address is reachable only from this machine: 127.0.0.0/8 (also mapped to IPv6) or ::1.
    public var isLoopback: Bool {
        withUnsafeBytes(of: storage) { bytes in
            guard isIPv6 else { return bytes[4] == 127 }
            let address = bytes[8..<24]
            return address.elementsEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
                || address.prefix(13).elementsEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 127])
        }
    }

    /// "127.0.0.1:7690" or "[::1]:7690".
    public var description: String {
        // The address follows family and port, and in IPv6 the flow label.
        let text = withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(INET6_ADDRSTRLEN)) { buffer in
            withUnsafeBytes(of: storage) { bytes in
                let address = bytes.baseAddress! + (isIPv6 ? 8 : 4)
                let done = inet_ntop(family, address, buffer.baseAddress!, socklen_t(buffer.count))
                return done == nil ? "?" : String(cString: buffer.baseAddress!)
            }
        }
        return isIPv6 ? "[\(text)]:\(port)" : "\(text):\(port)"
    }
}
