// Environment: LMDB's environment, transactions and cursors as scopes, with errors as results of CStoreIO.

import CISAL
import CLMDB
import CStoreIO

/// A failed call of LMDB: a result of CStoreIO other than 0.
struct Failure: Error, Equatable {
    var code: Int32

    init(_ code: Int32) { self.code = code }

    static let fault = Int32(FB_STORE_FAULT)
    static let broken = Int32(FB_STORE_BROKEN)
    /// A damaged row, noticed by this module.
    static let corrupted = Failure(MDB_CORRUPTED)

    var text: String { StoreError.text(of: code) }

    /// Whether the call did not return, so that LMDB's state is lost if it was writing.
    var isFault: Bool { code == Failure.fault || code == Failure.broken }

    static func check(_ code: Int32) throws(Failure) {
        if code != 0 { throw Failure(code) }
    }
}

/// The databases, with LMDB's numbers for them: they are opened in this order.
enum Database: UInt32, CaseIterable {
    case meta = 2
    case topics, extents, batches, publishers, deleted

    var name: String {
        switch self {
        case .meta: "meta"
        case .topics: "topics"
        case .extents: "extents"
        case .batches: "batches"
        case .publishers: "publishers"
        case .deleted: "deleted"
        }
    }

    static let count = UInt32(allCases.count)
}

/// A key after its id: a sequence, a publisher's key, or nothing.
private func withRest<R>(_ sequence: UInt64?, _ body: (UnsafeRawBufferPointer) -> R) -> R {
    guard let sequence else { return body(UnsafeRawBufferPointer(start: nil, count: 0)) }
    return withUnsafeBytes(of: sequence.bigEndian, body)
}

/// A read or write transaction.
struct Transaction {
    let pointer: OpaquePointer

    /// Nil if there is no such row. The row's pointers are valid until the transaction ends, or the next write.
    func get(_ database: Database, _ id: UInt64) throws(Failure) -> fb_store_row? {
        var row = fb_store_row()
        let code = fb_store_get(pointer, database.rawValue, id, nil, 0, &row)
        if code == MDB_NOTFOUND { return nil }
        try Failure.check(code)
        return row
    }

    func put(_ database: Database, _ id: UInt64, rest: [UInt8] = [], _ value: [UInt8]) throws(Failure) {
        try Failure.check(
            fb_store_put(pointer, database.rawValue, id, rest, rest.count, value, value.count))
    }

    /// Adds a row with `size` bytes; its memory is valid until the next write.
    func reserve(_ database: Database, _ id: UInt64, _ sequence: UInt64, _ size: Int) throws(Failure)
        -> UnsafeMutableRawBufferPointer
    {
        var space: UnsafeMutableRawPointer?
        let code = withRest(sequence) {
            fb_store_reserve(pointer, database.rawValue, id, $0.baseAddress, $0.count, size, &space)
        }
        try Failure.check(code)
        return UnsafeMutableRawBufferPointer(start: space, count: size)
    }

    /// Deletes a row; there need not be one.
    func delete(_ database: Database, _ id: UInt64, _ sequence: UInt64? = nil) throws(Failure) {
        let code = withRest(sequence) {
            fb_store_delete(pointer, database.rawValue, id, $0.baseAddress, $0.count)
        }
        if code != MDB_NOTFOUND { try Failure.check(code) }
    }

    func delete(_ database: Database, _ id: UInt64, rest: [UInt8]) throws(Failure) {
        let code = fb_store_delete(pointer, database.rawValue, id, rest, rest.count)
        if code != MDB_NOTFOUND { try Failure.check(code) }
    }

    func withCursor<R>(_ database: Database, _ body: (Cursor) throws(Failure) -> R) throws(Failure) -> R {
        var cursor: OpaquePointer?
        try Failure.check(fb_store_cursor(pointer, database.rawValue, &cursor))
        defer { fb_store_cursor_close(cursor) }
        return try body(Cursor(pointer: cursor!))
    }

    /// Number of rows.
    func entries(_ database: Database) throws(Failure) -> UInt64 {
        var entries: UInt64 = 0
        var pages: UInt64 = 0
        try Failure.check(fb_store_entries(pointer, database.rawValue, &entries, &pages))
        return entries
    }

    /// Pages of all databases.
    func pages() throws(Failure) -> UInt64 {
        var pages: UInt64 = 0
        try Failure.check(fb_store_pages(pointer, Database.count, &pages))
        return pages
    }
}

/// A cursor. All functions return nil if there is no such row.
struct Cursor {
    let pointer: OpaquePointer

    /// The first row at or after this key.
    func seek(_ id: UInt64, _ sequence: UInt64? = nil) throws(Failure) -> fb_store_row? {
        var row = fb_store_row()
        let code = withRest(sequence) { fb_store_seek(pointer, id, $0.baseAddress, $0.count, &row) }
        return try Cursor.found(code, row)
    }

    func first() throws(Failure) -> fb_store_row? { try move(FB_STORE_FIRST) }
    func next() throws(Failure) -> fb_store_row? { try move(FB_STORE_NEXT) }
    func previous() throws(Failure) -> fb_store_row? { try move(FB_STORE_PREVIOUS) }
    func last() throws(Failure) -> fb_store_row? { try move(FB_STORE_LAST) }

    /// The last row of an id.
    func last(of id: UInt64) throws(Failure) -> fb_store_row? {
        let after = id == .max ? nil : try seek(id + 1)
        let row = after == nil ? try last() : try previous()
        return row?.id == id ? row : nil
    }

    private func move(_ movement: Int) throws(Failure) -> fb_store_row? {
        var row = fb_store_row()
        return try Cursor.found(fb_store_move(pointer, Int32(movement), &row), row)
    }

    private static func found(_ code: Int32, _ row: fb_store_row) throws(Failure) -> fb_store_row? {
        if code == MDB_NOTFOUND { return nil }
        try Failure.check(code)
        return row
    }
}

extension fb_store_row {
    /// Copies the value, of at most `limit` bytes, out of the map.
    func bytes(limit: Int = 1 << 20) throws(Failure) -> [UInt8] {
        try fb_store_row.copy(value, size, limit)
    }

    /// The key after the id.
    func restBytes() throws(Failure) -> [UInt8] {
        try fb_store_row.copy(rest, rest_size, PublisherRecord.mostKeyBytes)
    }

    /// Copies the header of a batch, of any content.
    func header() throws(Failure) -> BatchHeader? {
        guard size >= BatchHeader.size, rest_size == 8 else { return nil }
        let bytes = try fb_store_row.copy(value, BatchHeader.size, BatchHeader.size)
        guard let header = bytes.withUnsafeBytes({ BatchHeader($0) }),
            Int(header.bodySize) == size - BatchHeader.size
        else { return nil }
        return header
    }

    private static func copy(_ from: UnsafeRawPointer?, _ size: Int, _ limit: Int) throws(Failure) -> [UInt8] {
        guard size <= limit else { throw Failure.corrupted }
        if size == 0 { return [] }
        var code: Int32 = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
            code = fb_store_copy(buffer.baseAddress, from, size)
            count = code == 0 ? size : 0
        }
        try Failure.check(code)
        return bytes
    }
}
