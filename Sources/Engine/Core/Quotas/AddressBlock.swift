// AddressBlock: the unit in which addresses are counted. An IPv6 host can use a whole /64.

/// What counts as one address, for connections and for failed logins.
public enum AddressBlock {
    /// The first four groups of an IPv6 address such as "[2001:db8:1:2::7]"; any other address unchanged.
    /// - Parameter address: as `SocketAddress` writes it, without a port.
    public static func of(_ address: String) -> String {
        guard address.hasPrefix("["), address.utf8.count > 2 else { return address }
        let groups = address.dropFirst().prefix { $0 != "]" && $0 != "%" }
        // An IPv4-mapped address.
        guard !groups.contains(".") else { return address }
        let halves = groups.split(separator: ":", omittingEmptySubsequences: false)
        // "::" yields an empty group in place of the omitted zeros.
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
