// AddressBlock: whom an address belongs to, for what is counted by address. A host of IPv6 has a /64 to call from.

/// What counts as one address, for connections and for logins that fail.
public enum AddressBlock {
    /// "[2001:db8:1:2::7]" by its first four groups, anything else as it is.
    /// - Parameter address: as `SocketAddress` writes it, without a port.
    public static func of(_ address: String) -> String {
        guard address.hasPrefix("["), address.utf8.count > 2 else { return address }
        let groups = address.dropFirst().prefix { $0 != "]" && $0 != "%" }
        // One of IPv4 as IPv6 writes it.
        guard !groups.contains(".") else { return address }
        let halves = groups.split(separator: ":", omittingEmptySubsequences: false)
        // "::" leaves an empty group where zeros are left out.
        var network: [Substring] = []
        for (index, group) in halves.enumerated() where network.count < 4 {
            if group.isEmpty, index > 0 {
                let rest = halves[(index + 1)...].filter { !$0.isEmpty }.count
                for _ in 0..<Swift.max(0, 8 - network.count - rest) where network.count < 4 { network.append("0") }
            } else if !group.isEmpty {
                network.append(group)
            }
        }
        return network.joined(separator: ":") + "::/64"
    }
}
