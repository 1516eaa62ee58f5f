// What the log reports of users and permissions that a reload changed: one line for each, without secrets.

import Access
import Core
import Testing

@testable import Server

@Suite struct AccessChangesTests {
    private func settings(_ users: [UserSettings], anonymous: PermissionSettings? = nil) -> AccessSettings {
        var settings = AccessSettings()
        settings.users = users
        settings.anonymous = anonymous
        return settings
    }

    private func reported(_ old: AccessSettings, _ new: AccessSettings) -> [String] {
        AccessChanges.lines(from: old, to: new).map { line in
            ([line.message] + line.fields.map { "\($0.key)=\($0.value)" }).joined(separator: " ")
        }
    }

    private func user(_ name: String, publish: [String] = [], subscribe: [String] = []) -> UserSettings {
        UserSettings(
            name: name, password: "secret", permissions: PermissionSettings(publish: publish, subscribe: subscribe))
    }

    @Test func eachUserIsNamedWithWhatChanged() {
        let old = settings([
            user("alice", publish: ["a.>", "b"]), user("bob", subscribe: ["x"]), user("carol", publish: ["c"]),
        ])
        let new = settings([
            user("alice", publish: ["b", ">", "*"], subscribe: ["$SYS.>"]), user("carol", publish: ["c"]),
            UserSettings(name: "dave", certificate: "CN=dave", permissions: PermissionSettings(control: ["d"])),
        ])
        #expect(
            reported(old, new) == [
                "user removed user=bob subscribe-withdrawn=x",
                "user changed user=alice publish-added=*,> publish-withdrawn=a.> subscribe-added=$SYS.>",
                "user added user=dave logs-in-by=certificate control-added=d",
            ])
        #expect(reported(old, old).isEmpty)
    }

    @Test func anotherOrderIsNoChange() {
        #expect(
            reported(
                settings([user("a", publish: ["x", "y"]), user("b")]),
                settings([user("b"), user("a", publish: ["y", "x", "y"])])
            ).isEmpty)
    }

    @Test func credentialsAreToldByTheirKind() {
        let old = UserSettings(name: "a", password: "secret 1", token: "secret 2")
        let new = UserSettings(name: "a", password: "secret 3", certificate: "secret 4")
        #expect(
            reported(settings([old]), settings([new])) == [
                "user changed user=a password=changed token=removed certificate=added"
            ])
        #expect(reported(settings([]), settings([old]))[0] == "user added user=a logs-in-by=password,token")
    }

    @Test func whatMayBeDoneWithoutCredentialsIsToldToo() {
        let some = PermissionSettings(subscribe: ["public.>"])
        let message = "anonymous permissions changed"
        #expect(
            reported(settings([user("a")]), settings([user("a")], anonymous: some)) == [
                "\(message) subscribe-added=public.>"
            ])
        // Without users everybody has all permissions.
        #expect(
            reported(settings([user("a")]), settings([])).last
                == "\(message) publish-added=everything subscribe-added=everything control-added=everything "
                + "block-added=everything")
    }

    @Test func keysOfTokensAreToldById() {
        func jwt(_ keys: [(String, String)], issuer: String? = nil) -> AccessSettings {
            var settings = AccessSettings()
            settings.anonymous = PermissionSettings()
            settings.jwt.issuer = issuer
            settings.jwt.keys = keys.map { JWTKeySettings(id: $0, algorithm: .hs256, material: Array($1.utf8)) }
            return settings
        }
        #expect(
            reported(jwt([("a", "secret 1"), ("b", "secret 2")]), jwt([("b", "secret 3"), ("c", "x")], issuer: "us"))
                == [
                    "jwt key removed key=a", "jwt key changed key=b algorithm=HS256",
                    "jwt key added key=c algorithm=HS256",
                    "jwt issuer changed from=none to=us",
                ])
    }
}
