// ByteBuffer: a growable first-in-first-out byte buffer, the one type in which the protocols and the engine own raw
// memory. It is not copyable, so passing it on never copies and a write never checks a reference count.
//
//     base        head            tail          capacity
//      |  consumed  |   readable    |    free       |

/// A growable FIFO of bytes. Appending moves `tail`, consuming moves `head`. When there is no space after `tail`, the
/// readable bytes are moved to the front, or to a region of twice the size.
public struct ByteBuffer: ~Copyable {
    private var base: UnsafeMutableRawPointer?
    private var head = 0
    private var tail = 0
    /// Bytes of memory held, readable or not.
    public private(set) var capacity = 0

    public init(minimumCapacity: Int = 0) {
        if minimumCapacity > 0 { grow(to: minimumCapacity) }
    }

    deinit { base?.deallocate() }

    /// Bytes that can be read.
    public var count: Int { tail - head }
    public var isEmpty: Bool { tail == head }

    /// The readable bytes. Valid until the next mutation.
    public var readable: UnsafeRawBufferPointer {
        guard let base else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        return UnsafeRawBufferPointer(start: base + head, count: tail - head)
    }

    /// Makes space for `count` more bytes and returns where to write them; call `commit` afterwards.
    public mutating func reserve(_ count: Int) -> UnsafeMutableRawPointer {
        if capacity - tail < count || base == nil { makeRoom(count) }
        return base! + tail
    }

    /// Adds `count` bytes that were written after `tail` to the buffer.
    public mutating func commit(_ count: Int) {
        precondition(count >= 0 && count <= capacity - tail)
        tail += count
    }

    public mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return }
        reserve(bytes.count).copyMemory(from: source, byteCount: bytes.count)
        tail += bytes.count
    }

    public mutating func append(_ text: String) {
        var text = text
        text.withUTF8 { append(UnsafeRawBufferPointer($0)) }
    }

    public mutating func append(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { append($0) }
    }

    /// Appends `value` in network byte order.
    public mutating func append<T: FixedWidthInteger>(bigEndian value: T) {
        reserve(MemoryLayout<T>.size).storeBytes(of: value.bigEndian, as: T.self)
        tail += MemoryLayout<T>.size
    }

    /// Appends the low 24 bits of `value` in network byte order.
    public mutating func append(u24 value: Int) {
        let target = reserve(3)
        target.storeBytes(of: UInt8(truncatingIfNeeded: value >> 16), as: UInt8.self)
        target.storeBytes(of: UInt8(truncatingIfNeeded: value >> 8), toByteOffset: 1, as: UInt8.self)
        target.storeBytes(of: UInt8(truncatingIfNeeded: value), toByteOffset: 2, as: UInt8.self)
        tail += 3
    }

    /// The readable bytes, to overwrite them in place, for example when a length is known only at the end.
    public mutating func withMutableReadable<R>(_ body: (UnsafeMutableRawBufferPointer) -> R) -> R {
        body(UnsafeMutableRawBufferPointer(start: base.map { $0 + head }, count: tail - head))
    }

    /// Removes the oldest `count` readable bytes.
    public mutating func consume(_ count: Int) {
        precondition(count >= 0 && count <= tail - head)
        head += count
        if head == tail {
            head = 0
            tail = 0
        }
    }

    /// Removes the newest `count` readable bytes: undoes an append.
    public mutating func truncate(by count: Int) {
        precondition(count >= 0 && count <= tail - head)
        tail -= count
        if head == tail {
            head = 0
            tail = 0
        }
    }

    public mutating func removeAll() {
        head = 0
        tail = 0
    }

    /// Frees the memory if nothing is readable and more than `limit` bytes are held.
    public mutating func shrink(above limit: Int = 0) {
        guard isEmpty, capacity > limit else { return }
        base?.deallocate()
        base = nil
        capacity = 0
    }

    private mutating func makeRoom(_ count: Int) {
        let readable = tail - head
        if let base, capacity - readable >= count, head >= readable {
            base.copyMemory(from: base + head, byteCount: readable)
            head = 0
            tail = readable
            return
        }
        var size = Swift.max(capacity, 64)
        while size - readable < count { size *= 2 }
        grow(to: size)
    }

    private mutating func grow(to size: Int) {
        let readable = tail - head
        let fresh = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16)
        if let base {
            fresh.copyMemory(from: base + head, byteCount: readable)
            base.deallocate()
        }
        base = fresh
        head = 0
        tail = readable
        capacity = size
    }
}
