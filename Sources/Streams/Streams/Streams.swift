// Streams: the whole library under one import: the core, and schedulers of Dispatch and Foundation.

@_exported import StreamsCore
