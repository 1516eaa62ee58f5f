// Exerciser: the commands of store-exerciser.
//
//     run DIR SEED COMMITS BYTES [LARGEST]
//                                  prints "open CRASH", and for each commit "try DIGEST", then "ack DIGEST" or
//                                  "fail REASON"; DIGEST is that of the model, LARGEST the size of the largest bodies
//     fault DIR                    opens a store, then reads memory that raises SIGBUS, as a bug of the broker might
//     verify                       reads directories from the standard input, and prints for each "DIGEST PROBLEMS" of
//                                  its store, or "error TEXT"
//     topics DIR COUNT             creates topics with two batches each, then measures opening
//     speed DIR SECONDS            compares group commits with single ones
//     ring DIR SECONDS             appends and trims, and reports each second
//
// Lines are written with write(2), so that a recorder sees where they are among the writes to the store.

import EventLoop
import Glibc
import Store

enum Exerciser {
    static func main(_ arguments: [String]) {
        do throws(StoreError) {
            switch arguments.dropFirst().first {
            case "run" where arguments.count == 6 || arguments.count == 7:
                try run(
                    arguments[2], UInt64(arguments[3]) ?? 0, commits: Int(arguments[4]) ?? 0,
                    bytes: UInt64(arguments[5]) ?? 0, largest: arguments.count == 7 ? Int(arguments[6]) : nil)
            case "verify":
                while let directory = readLine() { verify(directory) }
            case "fault" where arguments.count == 3: try fault(arguments[2])
            case "topics" where arguments.count == 4: try Speed.topics(arguments[2], Int(arguments[3]) ?? 0)
            case "ring" where arguments.count == 4: try Speed.ring(arguments[2], Int(arguments[3]) ?? 0)
            case "speed" where arguments.count == 4: try Speed.commits(arguments[2], Int(arguments[3]) ?? 0)
            default:
                print(
                    "usage: store-exerciser run DIR SEED COMMITS BYTES | verify | topics DIR COUNT | speed DIR SECONDS")
                exit(2)
            }
        } catch {
            report("error \(error)")
            exit(1)
        }
    }

    static func report(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        _ = write(1, bytes, bytes.count)
    }

    private static func run(
        _ directory: String, _ seed: UInt64, commits: Int, bytes: UInt64, largest: Int?
    ) throws(StoreError) {
        let store = try Store.open(StoreOptions(directory: directory, bytes: bytes))
        report("open \(store.startedAfterCrash)")
        var model = Model(random: Random(state: seed))
        if let largest { model.largest = largest }
        for _ in 0..<commits {
            var next = model
            let writes = (0..<Int.random(in: 1...6, using: &next.random)).map { _ in next.write() }
            report("try \(next.digest)")
            do throws(StoreError) {
                _ = try store.commit(writes)
                model = next
                report("ack \(model.digest)")
                if store.needsPurge { try store.purgeSome() }
            } catch {
                model.random = next.random
                report("fail \(error)")
            }
        }
        store.close()
        report("closed")
    }

    private static func fault(_ directory: String) throws(StoreError) {
        let store = try Store.open(StoreOptions(directory: directory, bytes: 1 << 20))
        let file = Glibc.open("\(directory)/lock", O_RDONLY)
        let map = mmap(nil, 4096, PROT_READ, MAP_SHARED, file, 0)!
        report("open")
        report("read \(map.load(as: UInt8.self))")
        store.close()
    }

    private static func verify(_ directory: String) {
        do throws(StoreError) {
            let store = try Store.open(StoreOptions(directory: directory, bytes: 64 << 20))
            let problems = store.check().problems
            report("\(try digest(store)) \(problems.isEmpty ? "" : "\(problems)")")
            store.close()
        } catch {
            report("error \(error)")
        }
    }

    /// The digest of what a store holds; equal to the model's if they are equal.
    static func digest(_ store: Store) throws(StoreError) -> UInt64 {
        var digest = Digest()
        for topic in try store.topics() {
            digest.add(topic.record)
            for publisher in topic.publishers { digest.add(publisher) }
            guard topic.first < topic.end else { continue }
            guard case .found(let batches) = store.read(topic.record.id, from: topic.first, upTo: .max, bytes: .max)
            else { throw .unusable("topic \(topic.record.id.value) cannot be read") }
            for batch in batches {
                digest.add(
                    batch.first, UInt64(batch.count), UInt64(bitPattern: batch.lastTimestamp), batch.chargedAfter)
                digest.add(batch.body.bytes)
            }
        }
        return digest.value
    }
}

extension Model {
    var digest: UInt64 {
        var digest = Digest()
        for (_, topic) in topics.sorted(by: { $0.key.value < $1.key.value }) {
            digest.add(topic.record)
            for (_, publisher) in topic.publishers.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
                digest.add(publisher)
            }
            for batch in topic.batches {
                digest.add(
                    batch.first, UInt64(batch.count), UInt64(bitPattern: batch.lastTimestamp), batch.chargedAfter)
                batch.body.withUnsafeBytes { digest.add($0) }
            }
        }
        return digest.value
    }
}

/// A hash that is the same in every process.
private struct Digest {
    private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

    mutating func add(_ words: UInt64...) {
        for word in words { value = (value ^ word) &* 0x9e37_79b9_7f4a_7c15 ^ value >> 29 }
    }

    mutating func add(_ bytes: UnsafeRawBufferPointer) {
        add(UInt64(bytes.count))
        for offset in stride(from: 0, to: bytes.count & ~7, by: 8) {
            add(bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
        }
        for byte in bytes.suffix(bytes.count & 7) { add(UInt64(byte)) }
    }

    mutating func add(_ record: TopicRecord) {
        add(record.id.value, record.epoch, record.isRelaxed ? 1 : 0, UInt64(bitPattern: record.createdAt))
        Array("\(record.name) \(String(describing: record.end)) \(record.former)".utf8).withUnsafeBytes { add($0) }
    }

    mutating func add(_ publisher: PublisherRecord) {
        publisher.key.withUnsafeBytes { add($0) }
        add(publisher.number, publisher.sequence, UInt64(bitPattern: publisher.usedAt))
    }
}
