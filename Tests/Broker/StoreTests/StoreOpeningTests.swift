// Tests of StoreOpening: directories that are in use, foreign, newer, read-only or not local.

import CStoreIO
import Foundation
import Testing

@testable import Store
@testable import store_exerciser

struct StoreOpeningTests {
    @Test func aDirectoryIsCreatedForItsOwnerOnly() throws {
        try withFolder { folder in
            let inner = folder + "/inner"
            try open(inner).close()
            let mode = try FileManager.default.attributesOfItem(atPath: inner)[.posixPermissions] as? Int
            #expect(mode == 0o700)
            #expect(
                try Set(FileManager.default.contentsOfDirectory(atPath: inner))
                    == ["forebay.store", "forebay.store-lock", "lock"])
            #expect(throws: StoreError.unusable("cannot create the store in \(folder)/a/b: No such file or directory"))
            {
                try open(folder + "/a/b")
            }
            #expect(throws: StoreError.unusable("\(inner)/lock is not a directory")) { try open(inner + "/lock") }
            #expect(throws: StoreError.unusable("a store has at most 35184372088832 bytes")) {
                try open(inner, bytes: .max)
            }
            try open(inner, bytes: StoreOptions.mostBytes).close()
        }
    }

    @Test func aSecondBrokerIsRefusedButAToolIsNot() throws {
        try withFolder { folder in
            let store = try open(folder)
            _ = try store.commit([.create(record(1)), TestBatch(topic: TopicID(1), first: 1).write])
            #expect(throws: StoreError.inUse("the store in \(folder) is in use by another process")) {
                try open(folder)
            }
            let tool = try open(folder, isReadOnly: true)
            #expect(tool.all(TopicID(1)).count == 1)
            _ = try store.commit([TestBatch(topic: TopicID(1), first: 2).write])
            #expect(tool.all(TopicID(1)).count == 2)
            #expect(try tool.info().isClean == false)
            tool.close()
            store.close()
            let after = try open(folder, isReadOnly: true)
            #expect(try after.info().isClean)
            after.close()
        }
    }

    @Test(arguments: ["data.mdb", "notes.txt", ".hidden"])
    func aDirectoryWithOtherFilesIsNotTouched(_ name: String) throws {
        try withFolder { folder in
            try Data("mine".utf8).write(to: URL(fileURLWithPath: "\(folder)/\(name)"))
            #expect(
                throws: StoreError.foreign(
                    "\(folder) is not empty and holds no Forebay store: it has a file \(name)")
            ) { try open(folder) }
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == [name])
        }
    }

    @Test func aForeignDataFileIsNotTouched() throws {
        try withFolder { folder in
            let path = "\(folder)/forebay.store"
            let error = StoreError.foreign("\(path) is not a Forebay store")
            for bytes in [Data(), Data("text".utf8), Data(count: 9000)] {
                try bytes.write(to: URL(fileURLWithPath: path))
                #expect(throws: error) { try open(folder) }
                #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == bytes)
            }
            // An LMDB file of another program: without the marker, or without our databases.
            for name in ["meta", "other"] {
                try FileManager.default.removeItem(atPath: path)
                try withEnvironment(path) { environment in
                    try StorePlace.write(environment) { transaction throws(Failure) in
                        var number: UInt32 = 0
                        try Failure.check(fb_store_database(transaction.pointer, name, 1, &number))
                    }
                }
                let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
                #expect(throws: error) { try open(folder) }
                #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == bytes)
            }
        }
    }

    @Test func aNewerStoreIsNotTouched() throws {
        try withFolder { folder in
            try open(folder).close()
            let path = "\(folder)/forebay.store"
            try withEnvironment(path) { environment in
                try StorePlace.write(environment) { transaction throws(Failure) in
                    try StorePlace.open(.meta, transaction, create: false)
                    var bytes = StoreState.marker
                    bytes.append(bigEndian: StoreState.version + 1)
                    try transaction.put(.meta, StoreState.formatKey, bytes)
                }
            }
            let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
            #expect(throws: StoreError.newer("\(path) was written by a newer version of Forebay")) {
                try open(folder)
            }
            #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == bytes)
        }
    }

    @Test func aPlaceIsCheckedWithoutAnyChange() throws {
        try withFolder { folder in
            let inner = folder + "/inner"
            func check(_ directory: String) throws {
                try Store.checkPlace(StoreOptions(directory: directory, bytes: 1 << 20))
            }
            try check(inner)
            try check(inner + "/")
            #expect(!FileManager.default.fileExists(atPath: inner))
            #expect(throws: StoreError.unusable("cannot create the store in \(inner)/a: No such file or directory")) {
                try check(inner + "/a")
            }
            let store = try open(inner)
            // It may be in use.
            try check(inner)
            store.close()
            let before = try FileManager.default.contentsOfDirectory(atPath: inner)
            let bytes = try Data(contentsOf: URL(fileURLWithPath: inner + "/forebay.store"))
            try check(inner)
            #expect(try FileManager.default.contentsOfDirectory(atPath: inner) == before)
            #expect(try Data(contentsOf: URL(fileURLWithPath: inner + "/forebay.store")) == bytes)
            #expect(
                throws: StoreError.foreign("\(folder) is not empty and holds no Forebay store: it has a file inner")
            ) { try check(folder) }
            #expect(throws: StoreError.unusable("\(inner)/lock is not a directory")) { try check(inner + "/lock") }
        }
    }

    @Test func anInterruptedCreationIsRepeated() throws {
        try withFolder { folder in
            for name in ["forebay.store.new", "forebay.store.new-lock", "lock"] {
                try Data("half".utf8).write(to: URL(fileURLWithPath: "\(folder)/\(name)"))
            }
            try open(folder).close()
            #expect(!FileManager.default.fileExists(atPath: "\(folder)/forebay.store.new"))
        }
    }

    @Test func theMapGrowsWithItsOption() throws {
        try withFolder { folder in
            try open(folder, bytes: 1 << 20).close()
            let store = try open(folder, bytes: 1 << 30)
            #expect(try store.info().map == 1 << 30 + 1 << 28 + 64 << 20)
            _ = try store.commit([
                .create(record(1)), TestBatch(topic: TopicID(1), first: 1, bodySize: 120 << 20).write,
            ])
            store.close()
            // A smaller option does not cut off data.
            let small = try open(folder, bytes: 1 << 20)
            #expect(small.all(TopicID(1))[0].body.count == 120 << 20)
            #expect(throws: StoreError.full) { try small.commit([.create(record(2))]) }
            small.close()
        }
    }

    /// Mounts need privileges: the test is skipped without them, and says so.
    @Test(.enabled(if: canMount, "needs the right to mount file systems"))
    func aReadOnlyFileSystemIsRefused() throws {
        try withFolder { folder in
            try open(folder).close()
            try #require(run("mount", "--bind", folder, folder) == 0)
            defer { _ = run("umount", folder) }
            try #require(run("mount", "-o", "remount,ro,bind", folder) == 0)
            #expect(throws: StoreError.unusable("cannot use the store in \(folder): Read-only file system")) {
                try open(folder)
            }
            let tool = try open(folder, isReadOnly: true)
            #expect(tool.check().problems.isEmpty)
            tool.close()
        }
    }

    @Test func networkFileSystemsAreKnown() {
        #expect(fb_store_remote("/") == nil)
        #expect(fb_store_remote("/does/not/exist") == nil)
    }

    private static let canMount =
        run("unshare", "--mount", "true") == 0
        && run("d=$(mktemp -d) && mount --bind $d $d && umount $d; r=$?; rmdir $d; exit $r") == 0

    private func withEnvironment(_ path: String, _ body: (OpaquePointer) throws -> Void) throws {
        let environment = try StorePlace.environment(path, 1 << 26, isReadOnly: false)
        defer { fb_store_close(environment) }
        try body(environment)
    }
}

/// Runs a command of the shell and returns its exit code; -1 if it cannot be run.
func run(_ arguments: String...) -> Int32 {
    let status = system(arguments.joined(separator: " ") + " >/dev/null 2>&1")
    return status < 0 || status & 0x7F != 0 ? -1 : status >> 8
}
