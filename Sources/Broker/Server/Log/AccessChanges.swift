// AccessChanges: the access changes of a reload, as log lines: one for each user, with every pattern that was added to
// a permission or withdrawn. Pure. Passwords, tokens and keys are compared but never logged.

import Access
import Core

enum AccessChanges {
    typealias Line = (message: String, fields: [LogField])

    static func lines(from old: AccessSettings, to new: AccessSettings) -> [Line] {
        users(old, new) + anonymous(old, new) + tokens(old.jwt, new.jwt)
    }

    private static func users(_ old: AccessSettings, _ new: AccessSettings) -> [Line] {
        let before = Dictionary(old.users.map { ($0.name, $0) }) { $1 }
        let after = Set(new.users.map(\.name))
        var lines: [Line] = []
        for user in old.users where !after.contains(user.name) {
            lines.append(("user removed", [("user", user.name)] + withdrawn(user.permissions)))
        }
        for user in new.users {
            guard let former = before[user.name] else {
                let ways = ["password", "token", "certificate"].filter { credential($0, of: user) != nil }
                let fields: [LogField] = [
                    ("user", user.name), ("logs-in-by", ways.isEmpty ? "jwt" : ways.joined(separator: ",")),
                ]
                lines.append(("user added", fields + changes(PermissionSettings(), user.permissions)))
                continue
            }
            let fields = credentials(former, user) + changes(former.permissions, user.permissions)
            if !fields.isEmpty { lines.append(("user changed", [("user", user.name)] + fields)) }
        }
        return lines
    }

    private static func anonymous(_ old: AccessSettings, _ new: AccessSettings) -> [Line] {
        let fields = changes(unasked(old), unasked(new))
        return fields.isEmpty ? [] : [("anonymous permissions changed", fields)]
    }

    /// What clients without credentials may do: everything if no credentials are configured.
    private static func unasked(_ settings: AccessSettings) -> PermissionSettings {
        if let anonymous = settings.anonymous { return anonymous }
        let all = settings.isOpen ? ["everything"] : []
        return PermissionSettings(publish: all, subscribe: all, control: all, block: all)
    }

    private static func tokens(_ old: JWTSettings, _ new: JWTSettings) -> [Line] {
        var lines: [Line] = []
        for key in old.keys where !new.keys.contains(where: { $0.id == key.id }) {
            lines.append(("jwt key removed", [("key", key.id)]))
        }
        for key in new.keys {
            let former = old.keys.first { $0.id == key.id }
            if former == key { continue }
            let message = former == nil ? "jwt key added" : "jwt key changed"
            lines.append((message, [("key", key.id), ("algorithm", key.algorithm.rawValue)]))
        }
        for (name, former, value) in [("audience", old.audience, new.audience), ("issuer", old.issuer, new.issuer)]
        where former != value {
            lines.append(("jwt \(name) changed", [("from", former ?? "none"), ("to", value ?? "none")]))
        }
        return lines
    }

    // Fields

    private static func credential(_ name: String, of user: UserSettings) -> String? {
        switch name {
        case "password": user.password
        case "token": user.token
        default: user.certificate
        }
    }

    private static func credentials(_ old: UserSettings, _ new: UserSettings) -> [LogField] {
        ["password", "token", "certificate"].compactMap { name in
            switch (credential(name, of: old), credential(name, of: new)) {
            case (nil, .some): (name, "added")
            case (.some, nil): (name, "removed")
            case (let former, let value): former == value ? nil : (name, "changed")
            }
        }
    }

    private static func withdrawn(_ permissions: PermissionSettings) -> [LogField] {
        changes(permissions, PermissionSettings())
    }

    private static func changes(_ old: PermissionSettings, _ new: PermissionSettings) -> [LogField] {
        var fields: [LogField] = []
        for (name, former, patterns) in [
            ("publish", old.publish, new.publish), ("subscribe", old.subscribe, new.subscribe),
            ("control", old.control, new.control), ("block", old.block, new.block),
        ] {
            let added = Set(patterns).subtracting(former)
            let withdrawn = Set(former).subtracting(patterns)
            if !added.isEmpty { fields.append(("\(name)-added", listed(added))) }
            if !withdrawn.isEmpty { fields.append(("\(name)-withdrawn", listed(withdrawn))) }
        }
        return fields
    }

    /// Patterns contain neither spaces nor commas.
    private static func listed(_ patterns: Set<String>) -> String { patterns.sorted().joined(separator: ",") }
}
