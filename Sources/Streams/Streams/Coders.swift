// Coders: Foundation's encoders and decoders, for `encode(encoder:)` and `decode(type:decoder:)`.

import Foundation
import StreamsCore

extension JSONEncoder: TopLevelEncoder {}
extension JSONDecoder: TopLevelDecoder {}
extension PropertyListEncoder: TopLevelEncoder {}
extension PropertyListDecoder: TopLevelDecoder {}
