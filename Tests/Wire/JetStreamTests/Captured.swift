// Captured: answers of nats-server 2.15.1, byte by byte.

enum Captured {
    static let noNames = #"""
        {"type":"io.nats.jetstream.api.v1.stream_names_response","total":0,"offset":0,"limit":1024,"streams"\#
        :null}
        """#
    static let names = #"""
        {"type":"io.nats.jetstream.api.v1.stream_names_response","total":1,"offset":0,"limit":1024,"streams"\#
        :["FB_1"]}
        """#
    static let list = #"""
        {"type":"io.nats.jetstream.api.v1.stream_list_response","total":1,"offset":0,"limit":256,"streams":[\#
        {"config":{"name":"FB_1","subjects":["fb.p.*.t"],"retention":"limits","max_consumers":-1,"max_msgs":\#
        -1,"max_bytes":-1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":\#
        "file","num_replicas":1,"duplicate_window":120000000000,"compression":"none","republish":{"src":"fb.\#
        p.*.t","dest":"fb.l.t"},"allow_direct":true,"mirror_direct":false,"sealed":false,"deny_delete":false\#
        ,"deny_purge":false,"allow_rollup_hdrs":false,"consumer_limits":{},"allow_msg_ttl":false,"metadata":\#
        {"_nats.req.level":"0","forebay-topic":"t"}},"created":"2026-11-28T12:27:11.964788825Z","state":{"me\#
        ssages":1,"bytes":43,"first_seq":1,"first_ts":"2026-11-28T12:27:12.164557635Z","last_seq":1,"last_ts\#
        ":"2026-11-28T12:27:12.164557635Z","num_subjects":1,"consumer_count":0},"ts":"2026-11-28T12:27:12.36\#
        5104299Z"}]}
        """#
    static let noStream = #"""
        {"type":"io.nats.jetstream.api.v1.stream_info_response","error":{"code":404,"err_code":10059,"descri\#
        ption":"stream not found"},"total":0,"offset":0,"limit":0}
        """#
    static let created = #"""
        {"type":"io.nats.jetstream.api.v1.stream_create_response","config":{"name":"FB_1","subjects":["fb.p.\#
        *.t"],"retention":"limits","max_consumers":-1,"max_msgs":5,"max_bytes":-1,"max_age":0,"max_msgs_per_\#
        subject":-1,"max_msg_size":-1,"discard":"old","storage":"file","num_replicas":1,"duplicate_window":1\#
        20000000000,"compression":"none","republish":{"src":"fb.p.*.t","dest":"fb.l.t"},"allow_direct":true,\#
        "mirror_direct":false,"sealed":false,"deny_delete":false,"deny_purge":false,"allow_rollup_hdrs":fals\#
        e,"consumer_limits":{},"allow_msg_ttl":false,"metadata":{"_nats.level":"5","_nats.req.level":"0","_n\#
        ats.ver":"2.15.1","forebay-topic":"t\"\u0001"}},"created":"2026-11-27T15:54:24.173081057Z","state":{\#
        "messages":0,"bytes":0,"first_seq":0,"first_ts":"0001-01-01T00:00:00Z","last_seq":0,"last_ts":"0001-\#
        01-01T00:00:00Z","consumer_count":0},"ts":"2026-11-27T15:54:24.174600308Z","did_create":true}
        """#
    static let nameInUse = #"""
        {"type":"io.nats.jetstream.api.v1.stream_create_response","error":{"code":400,"err_code":10058,"desc\#
        ription":"stream name already in use with a different configuration"}}
        """#
    static let overlap = #"""
        {"type":"io.nats.jetstream.api.v1.stream_create_response","error":{"code":400,"err_code":10065,"desc\#
        ription":"subjects overlap with an existing stream"}}
        """#
    static let replicas = #"""
        {"type":"io.nats.jetstream.api.v1.stream_create_response","error":{"code":500,"err_code":10074,"desc\#
        ription":"replicas \u003e 1 not supported in non-clustered mode"}}
        """#
    static let emptyInfo = #"""
        {"type":"io.nats.jetstream.api.v1.stream_info_response","total":0,"offset":0,"limit":0,"config":{"na\#
        me":"FB_1","subjects":["fb.p.*.t"],"retention":"limits","max_consumers":-1,"max_msgs":5,"max_bytes":\#
        -1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":"file","num_rep\#
        licas":1,"duplicate_window":120000000000,"compression":"none","republish":{"src":"fb.p.*.t","dest":"\#
        fb.l.t"},"allow_direct":true,"mirror_direct":false,"sealed":false,"deny_delete":false,"deny_purge":f\#
        alse,"allow_rollup_hdrs":false,"consumer_limits":{},"allow_msg_ttl":false,"metadata":{"_nats.level":\#
        "5","_nats.req.level":"0","_nats.ver":"2.15.1","forebay-topic":"t\"\u0001"}},"created":"2026-11-27T1\#
        5:54:24.173081057Z","state":{"messages":0,"bytes":0,"first_seq":0,"first_ts":"0001-01-01T00:00:00Z",\#
        "last_seq":0,"last_ts":"0001-01-01T00:00:00Z","consumer_count":0},"cluster":{"leader":"NDYDFW7LJAVJR\#
        X3ILYW2VMVMGZ2QPPQ3TLHLBTJYFHWYMVXLM5ZEKOVT"},"ts":"2026-11-27T15:54:24.17687532Z"}
        """#
    static let info = #"""
        {"type":"io.nats.jetstream.api.v1.stream_info_response","total":0,"offset":0,"limit":0,"config":{"na\#
        me":"FB_1","subjects":["fb.p.*.t"],"retention":"limits","max_consumers":-1,"max_msgs":5,"max_bytes":\#
        -1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":"file","num_rep\#
        licas":1,"duplicate_window":120000000000,"compression":"none","republish":{"src":"fb.p.*.t","dest":"\#
        fb.l.t"},"allow_direct":true,"mirror_direct":false,"sealed":false,"deny_delete":false,"deny_purge":f\#
        alse,"allow_rollup_hdrs":false,"consumer_limits":{},"allow_msg_ttl":false,"metadata":{"_nats.level":\#
        "5","_nats.req.level":"0","_nats.ver":"2.15.1","forebay-topic":"t\"\u0001"}},"created":"2026-11-27T1\#
        5:54:24.173081057Z","state":{"messages":2,"bytes":132,"first_seq":1,"first_ts":"2026-11-27T15:54:24.\#
        177327246Z","last_seq":2,"last_ts":"2026-11-27T15:54:24.178193426Z","num_subjects":1,"consumer_count\#
        ":0},"cluster":{"leader":"NDYDFW7LJAVJRX3ILYW2VMVMGZ2QPPQ3TLHLBTJYFHWYMVXLM5ZEKOVT"},"ts":"2026-11-2\#
        7T15:54:24.180884642Z"}
        """#
    static let trimmedInfo = #"""
        {"type":"io.nats.jetstream.api.v1.stream_info_response","total":0,"offset":0,"limit":0,"config":{"na\#
        me":"FB_1","subjects":["fb.p.*.t"],"retention":"limits","max_consumers":-1,"max_msgs":5,"max_bytes":\#
        -1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":"file","num_rep\#
        licas":1,"duplicate_window":120000000000,"compression":"none","republish":{"src":"fb.p.*.t","dest":"\#
        fb.l.t"},"allow_direct":true,"mirror_direct":false,"sealed":false,"deny_delete":false,"deny_purge":f\#
        alse,"allow_rollup_hdrs":false,"consumer_limits":{},"allow_msg_ttl":false,"metadata":{"_nats.level":\#
        "5","_nats.req.level":"0","_nats.ver":"2.15.1","forebay-topic":"t\"\u0001"}},"created":"2026-11-27T1\#
        5:54:24.173081057Z","state":{"messages":5,"bytes":200,"first_seq":4,"first_ts":"2026-11-27T15:54:24.\#
        181417633Z","last_seq":8,"last_ts":"2026-11-27T15:54:24.182100678Z","num_subjects":1,"consumer_count\#
        ":0},"cluster":{"leader":"NDYDFW7LJAVJRX3ILYW2VMVMGZ2QPPQ3TLHLBTJYFHWYMVXLM5ZEKOVT"},"ts":"2026-11-2\#
        7T15:54:24.182243188Z"}
        """#
    static let purgedInfo = #"""
        {"type":"io.nats.jetstream.api.v1.stream_info_response","total":0,"offset":0,"limit":0,"config":{"na\#
        me":"FB_1","subjects":["fb.p.*.t"],"retention":"limits","max_consumers":-1,"max_msgs":5,"max_bytes":\#
        -1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":"file","num_rep\#
        licas":1,"duplicate_window":120000000000,"compression":"none","republish":{"src":"fb.p.*.t","dest":"\#
        fb.l.t"},"allow_direct":true,"mirror_direct":false,"sealed":false,"deny_delete":false,"deny_purge":f\#
        alse,"allow_rollup_hdrs":false,"consumer_limits":{},"allow_msg_ttl":false,"metadata":{"_nats.level":\#
        "5","_nats.req.level":"0","_nats.ver":"2.15.1","forebay-topic":"t\"\u0001"}},"created":"2026-11-27T1\#
        5:54:24.173081057Z","state":{"messages":0,"bytes":0,"first_seq":9,"first_ts":"0001-01-01T00:00:00Z",\#
        "last_seq":8,"last_ts":"2026-11-27T15:54:24.182100678Z","consumer_count":0},"cluster":{"leader":"NDY\#
        DFW7LJAVJRX3ILYW2VMVMGZ2QPPQ3TLHLBTJYFHWYMVXLM5ZEKOVT"},"ts":"2026-11-27T15:54:24.184053348Z"}
        """#
    static let sealed = #"""
        {"type":"io.nats.jetstream.api.v1.stream_update_response","config":{"name":"FB_1","subjects":["fb.p.\#
        *.t"],"retention":"limits","max_consumers":-1,"max_msgs":5,"max_bytes":-1,"max_age":0,"max_msgs_per_\#
        subject":-1,"max_msg_size":-1,"discard":"new","storage":"file","num_replicas":1,"duplicate_window":1\#
        20000000000,"compression":"none","republish":{"src":"fb.p.*.t","dest":"fb.l.t"},"allow_direct":true,\#
        "mirror_direct":false,"sealed":true,"deny_delete":true,"deny_purge":true,"allow_rollup_hdrs":false,"\#
        consumer_limits":{},"allow_msg_ttl":false,"metadata":{"_nats.level":"5","_nats.req.level":"0","_nats\#
        .ver":"2.15.1","forebay-topic":"t\"\u0001"}},"created":"2026-11-27T15:54:24.173081057Z","state":{"me\#
        ssages":0,"bytes":0,"first_seq":9,"first_ts":"0001-01-01T00:00:00Z","last_seq":8,"last_ts":"2026-11-\#
        27T15:54:24.182100678Z","consumer_count":0},"ts":"2026-11-27T15:54:24.185126246Z"}
        """#
    static let stored = #"""
        {"type":"io.nats.jetstream.api.v1.stream_msg_get_response","message":{"subject":"fb.p.-.t","seq":1,"\#
        hdrs":"TkFUUy8xLjANCk5hdHMtTXNnLUlkOiBuLjENCkZvcmViYXk6IHgNCg0K","data":"aGVsbG8=","time":"2026-11-2\#
        7T15:54:24.177327246Z"}}
        """#
    static let storedBinary = #"""
        {"type":"io.nats.jetstream.api.v1.stream_msg_get_response","message":{"subject":"fb.p.-.t","seq":2,"\#
        data":"AP8NCgE=","time":"2026-11-27T15:54:24.178193426Z"}}
        """#
    static let noMessage = #"""
        {"type":"io.nats.jetstream.api.v1.stream_msg_get_response","error":{"code":404,"err_code":10037,"des\#
        cription":"no message found"}}
        """#
    static let published = #"""
        {"stream":"FB_1","seq":1}
        """#
    static let duplicate = #"""
        {"stream":"FB_1","seq":1,"duplicate": true}
        """#
    static let wrongLast = #"""
        {"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 1"},"stream":"FB_1","seq":\#
        0}
        """#
    static let wrongStream = #"""
        {"error":{"code":400,"err_code":10060,"description":"expected stream does not match"},"stream":"FB_1\#
        ","seq":0}
        """#
    static let publishSealed = #"""
        {"error":{"code":400,"err_code":10109,"description":"invalid operation on sealed stream"},"stream":"\#
        FB_1","seq":0}
        """#
    static let full = #"""
        {"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"stream":"FB_4","se\#
        q":0}
        """#
    static let tooLarge = #"""
        {"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"},"stream"\#
        :"FB_5","seq":0}
        """#
    static let republished = block([
        "NATS/1.0",
        "Nats-Msg-Id: n.1",
        "Forebay: x",
        "Nats-Stream: FB_1",
        "Nats-Subject: fb.p.-.t",
        "Nats-Sequence: 1",
        "Nats-Time-Stamp: 2026-11-27T15:54:24.177327246Z",
        "Nats-Last-Sequence: 0",
    ])
    static let direct = block([
        "NATS/1.0",
        "Nats-Msg-Id: n.1",
        "Forebay: x",
        "Nats-Stream: FB_1",
        "Nats-Subject: fb.p.-.t",
        "Nats-Sequence: 1",
        "Nats-Time-Stamp: 2026-11-27T15:54:24.177327246Z",
        "Nats-Num-Pending: 1",
        "Nats-Last-Sequence: 0",
    ])
    static let directEnd = block([
        "NATS/1.0 204 EOB",
        "Nats-Num-Pending: 0",
        "Nats-Last-Sequence: 2",
    ])
    static let directNone = block([
        "NATS/1.0 404 Message Not Found"
    ])
    static let directBad = block([
        "NATS/1.0 408 Empty Request"
    ])
    static let noResponders = block([
        "NATS/1.0 503",
        "Nats-Subject: $JS.API.DIRECT.GET.FB_9",
    ])

    /// Lines with their breaks, and an empty one.
    static func block(_ lines: [String]) -> String { lines.map { $0 + "\r\n" }.joined() + "\r\n" }

    /// All that are JSON.
    static let answers = [
        noNames, names, noStream, created, nameInUse, overlap, replicas, emptyInfo, info, trimmedInfo,
        purgedInfo, sealed, stored, storedBinary, noMessage, published, duplicate, wrongLast, wrongStream,
        publishSealed, full, tooLarge,
    ]
    /// All that are headers.
    static let blocks = [republished, direct, directEnd, directNone, directBad, noResponders]
}
