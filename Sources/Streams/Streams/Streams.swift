// Streams: the whole library in one import: the core, and the schedulers of Dispatch and Foundation.

@_exported import StreamsCore
