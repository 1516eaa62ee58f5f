// Reflection: server reflection, grpc.reflection.v1 and v1alpha, which differ only in their names. A tool asks for
// services, for files or for the file that defines a name, and receives descriptors. The descriptors are generated from
// the .proto files (see Descriptors.swift); names are looked up in the descriptors themselves.

import Bytes

/// A `ServerReflectionRequest` and its answer.
public struct Reflection {
    /// Maximum bytes of `host` and names in a request, because the response repeats it. 4 KiB.
    public static let longestRequest = 4096

    enum Question: Equatable {
        case fileByFilename(String)
        case fileContainingSymbol(String)
        case fileContainingExtension(type: String, number: Int32)
        case allExtensionNumbers(type: String)
        case listServices
    }

    var host = ""
    var question: Question?

    /// Appends the response to `request` after gRPC's prefix. An unknown name is reported in the response, as the
    /// service defines, and the call continues.
    ///
    /// - Throws: INVALID_ARGUMENT for malformed bytes, RESOURCE_EXHAUSTED above `longestRequest`.
    public static func answer(
        _ request: UnsafeRawBufferPointer, to out: inout ByteBuffer
    ) throws(GRPCError) {
        guard request.count <= longestRequest else {
            throw GRPCError(.resourceExhausted, "A reflection request may have at most \(longestRequest) bytes.")
        }
        let parsed = try Reflection(request)
        GRPCFraming.append(to: &out) { response in
            response.append(field: 1, parsed.host)
            response.append(field: 2, request)
            parsed.answer(into: &response)
        }
    }

    init(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) {
        let name: StaticString = "ServerReflectionRequest"
        var reader = ProtobufReader(bytes)
        while let (number, value) = try nextField(of: name, &reader) {
            guard case .bytes(let content) = value else { continue }
            switch number {
            case 1: host = try checkedText(content, name).text
            case 3: question = .fileByFilename(try checkedText(content, name).text)
            case 4: question = .fileContainingSymbol(try checkedText(content, name).text)
            case 5: question = try extensionRequest(content)
            case 6: question = .allExtensionNumbers(type: try checkedText(content, name).text)
            case 7:
                // The value has no meaning but must be valid text.
                _ = try checkedText(content, name)
                question = .listServices
            default: break
            }
        }
    }

    private func extensionRequest(_ bytes: UnsafeRawBufferPointer) throws(GRPCError) -> Question {
        var (type, wanted) = ("", Int32(0))
        if case .fileContainingExtension(let before, let number)? = question { (type, wanted) = (before, number) }
        var reader = ProtobufReader(bytes)
        while let (number, value) = try nextField(of: "ExtensionRequest", &reader) {
            switch (number, value) {
            case (1, .bytes(let text)): type = try checkedText(text, "containing_type").text
            case (2, .varint(let value)): wanted = Int32(truncatingIfNeeded: value)
            default: break
            }
        }
        return .fileContainingExtension(type: type, number: wanted)
    }

    private func answer(into response: inout ByteBuffer) {
        switch question {
        case .fileByFilename(let name):
            append(file: DescriptorFile.all.first { $0.name == name }, name, into: &response)
        case .fileContainingSymbol(let symbol):
            append(file: DescriptorFile.all.first { $0.symbols.contains(symbol) }, symbol, into: &response)
        case .fileContainingExtension(let type, _):
            append(error: .notFound, "'\(type)' has no extensions.", into: &response)
        case .allExtensionNumbers(let type):
            guard DescriptorFile.all.contains(where: { $0.messages.contains(type) }) else {
                append(error: .notFound, "There is no message type '\(type)'.", into: &response)
                return
            }
            response.append(field: 5) { $0.append(field: 1, type) }
        case .listServices:
            response.append(field: 6) { list in
                for service in GRPCMethod.services { list.append(field: 1) { $0.append(field: 1, service) } }
            }
        case nil:
            append(error: .invalidArgument, "The request is empty; set one of its fields.", into: &response)
        }
    }

    private func append(file: DescriptorFile?, _ name: String, into response: inout ByteBuffer) {
        guard let file else {
            append(error: .notFound, "There is no file or symbol '\(name)'.", into: &response)
            return
        }
        response.append(field: 4) { answer in
            file.bytes.withUnsafeBytes { answer.append(field: 1, $0) }
        }
    }

    private func append(error: GRPCStatus, _ text: String, into response: inout ByteBuffer) {
        response.append(field: 7) {
            $0.append(field: 1, UInt64(error.rawValue))
            $0.append(field: 2, GRPCError(error, text).message)
        }
    }
}

/// A `FileDescriptorProto` and the names that it defines.
struct DescriptorFile: Sendable {
    let name: String
    let bytes: [UInt8]
    /// Full names of all its definitions: messages, fields, oneofs, enums and their values, services, methods.
    private(set) var symbols: Set<String> = []
    /// Full names of its messages.
    private(set) var messages: Set<String> = []

    static let all = [
        DescriptorFile("forebay/v1/forebay.proto", Descriptors.forebay),
        DescriptorFile("grpc/health/v1/health.proto", Descriptors.health),
        DescriptorFile("grpc/reflection/v1/reflection.proto", Descriptors.reflection),
        DescriptorFile("grpc/reflection/v1alpha/reflection.proto", Descriptors.reflectionAlpha),
    ]

    private init(_ name: String, _ hexadecimal: StaticString) {
        self.name = name
        let bytes = Descriptors.bytes(hexadecimal)
        self.bytes = bytes
        bytes.withUnsafeBytes { file in
            let package = Self.texts(2, in: file).first ?? ""
            for message in Self.parts(4, in: file) { add(message: message, in: package) }
            for type in Self.parts(5, in: file) { add(enum: type, in: package) }
            for service in Self.parts(6, in: file) {
                let name = add(service, in: package)
                for method in Self.parts(2, in: service) { add(method, in: name) }
            }
        }
    }

    // Field numbers are those of google/protobuf/descriptor.proto; a definition's own name is always field 1.

    private mutating func add(message: UnsafeRawBufferPointer, in scope: String) {
        let name = add(message, in: scope)
        messages.insert(name)
        for field in Self.parts(2, in: message) { add(field, in: name) }
        for nested in Self.parts(3, in: message) { add(message: nested, in: name) }
        for type in Self.parts(4, in: message) { add(enum: type, in: name) }
        for oneof in Self.parts(8, in: message) { add(oneof, in: name) }
    }

    private mutating func add(enum type: UnsafeRawBufferPointer, in scope: String) {
        add(type, in: scope)
        // Values are in the scope of their enum, not inside it.
        for value in Self.parts(2, in: type) { add(value, in: scope) }
    }

    @discardableResult
    private mutating func add(_ definition: UnsafeRawBufferPointer, in scope: String) -> String {
        let name = Self.texts(1, in: definition).first ?? ""
        let full = scope.isEmpty ? name : "\(scope).\(name)"
        symbols.insert(full)
        return full
    }

    private static func texts(_ number: UInt32, in message: UnsafeRawBufferPointer) -> [String] {
        parts(number, in: message).map(\.text)
    }

    private static func parts(_ number: UInt32, in message: UnsafeRawBufferPointer) -> [UnsafeRawBufferPointer] {
        var reader = ProtobufReader(message)
        var found: [UnsafeRawBufferPointer] = []
        while let field = try? reader.next() {
            if field.number == number, case .bytes(let part) = field.value { found.append(part) }
        }
        return found
    }
}
