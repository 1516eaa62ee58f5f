// Support: a folder for each test, and batches whose bytes follow from their topic and sequence.

import Foundation
import Testing

@testable import Store
@testable import store_exerciser

/// Runs `body` with a new folder, which is removed afterwards.
func withFolder(_ body: (String) throws -> Void) throws {
    let folder = NSTemporaryDirectory() + "forebay-store-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try body(folder)
}

func open(_ folder: String, bytes: UInt64 = 64 << 20, isReadOnly: Bool = false) throws -> Store {
    try Store.open(StoreOptions(directory: folder, bytes: bytes, isReadOnly: isReadOnly))
}

func record(_ id: UInt64, epoch: UInt64 = 1, isRelaxed: Bool = false) -> TopicRecord {
    TopicRecord(id: TopicID(id), name: "topic-\(id)", epoch: epoch, isRelaxed: isRelaxed, createdAt: 7)
}

extension StoreRead {
    var batches: [StoredBatch]? { if case .found(let batches) = self { batches } else { nil } }
    var goneBefore: UInt64? { if case .gone(let before) = self { before } else { nil } }
    var unreadableBefore: UInt64? { if case .unreadable(let before, _) = self { before } else { nil } }
}

extension Store {
    func all(_ id: TopicID, from sequence: UInt64 = 1) -> [StoredBatch] {
        read(id, from: sequence, upTo: .max, bytes: .max).batches ?? []
    }
}

func copyFile(_ from: String, _ to: String) throws {
    try? FileManager.default.removeItem(atPath: to)
    try FileManager.default.copyItem(atPath: from, toPath: to)
}
